# The dialects of exported programs, as ExportedProgram.verifier names them.


class Verifier:
    __module__ = "torch._export.verifier"
    dialect = "ATEN"

    def check(self, exported_program):
        exported_program.validate()


class TrainingIRVerifier(Verifier):
    __module__ = "torch._export.verifier"
    dialect = "TRAINING"
