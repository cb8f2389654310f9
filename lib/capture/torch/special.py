# torch.special: operators whose ATen names begin with special_.
from torch import _operators, _placeholder


def __getattr__(name):
    if _operators.exists("special_" + name):
        found = globals()[name] = getattr(_operators.aten, "special_" + name)
        return found
    return _placeholder.attribute(__name__, name)
