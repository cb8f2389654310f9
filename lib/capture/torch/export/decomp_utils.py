# The table of decompositions to core ATen: what a script takes out of it is kept whole.

__all__ = ["CustomDecompTable"]


def _names(operator):
    """An overload, or all overloads of a packet, as the operators' own names."""
    name = operator.name() if hasattr(operator, "name") else operator._qualified_op_name
    return [name.removesuffix(".default")]


class CustomDecompTable:
    def __init__(self):
        self.kept = []
        self.functions = {}  # operator -> its decomposition in Python, used in the place of ours

    def pop(self, operator, *default):
        self.kept += _names(operator)
        for name in _names(operator):
            self.functions.pop(name, None)

    def __delitem__(self, operator):
        self.pop(operator)

    def __contains__(self, operator):
        return _names(operator)[0] not in self.kept

    def __setitem__(self, operator, decomposition):
        for name in _names(operator):
            self.functions[name] = decomposition

    def update(self, others):
        for operator, decomposition in others.items():
            self[operator] = decomposition

    def materialize(self):
        """The decompositions in Python; all others are the operators' own."""
        return dict(self.functions)

    def copy(self):
        table = CustomDecompTable()
        table.kept, table.functions = list(self.kept), dict(self.functions)
        return table
