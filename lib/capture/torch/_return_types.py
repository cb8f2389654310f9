# torch.return_types: the named tuples of operators with several results, so that x.max(dim=1).values works.
import collections
import sys

_made = {}


def make(operator, fields):
    """The named tuple of an operator ("max", ("values", "indices")), made once."""
    key = (operator, *fields)
    if key not in _made:
        _made[key] = collections.namedtuple(operator, fields, module="torch.return_types")
    return _made[key]


def __getattr__(name):
    for (operator, *_), made in _made.items():
        if operator == name:
            return made
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


sys.modules["torch.return_types"] = sys.modules[__name__]
