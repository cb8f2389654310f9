# What draft_export says beside its program: all that export would refuse.
import dataclasses


@dataclasses.dataclass
class FailureReport:
    """One thing that export would refuse."""

    code: str
    message: str
    place: str
    fix: str

    def __str__(self):
        return f"{self.place}: {self.code}: {self.message}\n    {self.fix}"


@dataclasses.dataclass
class DraftExportReport:
    failures: list

    def successful(self):
        return not self.failures

    def __str__(self):
        if not self.failures:
            return "Nothing was refused: torch.export.export gives the same program."
        return "\n".join([f"torch.export.export would refuse {len(self.failures)}:", *map(str, self.failures)])
