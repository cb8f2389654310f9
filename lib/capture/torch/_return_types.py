# torch.return_types: the named tuples of operators with several results, so that x.max(dim=1).values works.
import collections
import sys

_made = {}
_of_places = {"cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "nanmedian", "sort", "topk"}


def make(operator, fields):
    """The named tuple of an operator ("max", ("values", "indices")), made once."""
    key = (operator, *fields)
    if key not in _made:
        _made[key] = collections.namedtuple(operator, fields, module="torch.return_types")
    return _made[key]


def __getattr__(name):
    if name in _of_places:
        return make(name, ("values", "indices"))
    for (operator, *_), made in _made.items():
        if operator == name:
            return made
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


sys.modules["torch.return_types"] = sys.modules[__name__]
