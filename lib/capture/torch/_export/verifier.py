# The dialects of exported programs, as ExportedProgram.verifier names them.
from torch import _placeholder


class Verifier:
    dialect = "ATEN"

    def check(self, exported_program):
        exported_program.validate()


class TrainingIRVerifier(Verifier):
    dialect = "TRAINING"


__getattr__ = _placeholder.getter(__name__)
