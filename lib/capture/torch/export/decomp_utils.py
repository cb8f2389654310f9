# The table of decompositions to core ATen: what a script takes out of it is kept whole.
from torch import _placeholder

__all__ = ["CustomDecompTable"]


def _names(operator):
    """An overload, or all overloads of a packet, as the operators' own names."""
    name = operator.name() if hasattr(operator, "name") else operator._qualified_op_name
    return [name.removesuffix(".default")]


class CustomDecompTable:
    def __init__(self):
        self.kept = []

    def pop(self, operator, *default):
        self.kept += _names(operator)

    def __delitem__(self, operator):
        self.pop(operator)

    def __contains__(self, operator):
        return _names(operator)[0] not in self.kept

    def __setitem__(self, operator, decomposition):
        raise NotImplementedError(f"a decomposition of {operator} in Python is not supported: write it as a block of an .ops "
                                  "file, for `atenon decompose --with`")

    def copy(self):
        table = CustomDecompTable()
        table.kept = list(self.kept)
        return table


__getattr__ = _placeholder.getter(__name__)
