# torch.linalg: operators whose ATen names begin with linalg_.
from torch import _operators, _placeholder


def __getattr__(name):
    if _operators.exists("linalg_" + name):
        found = globals()[name] = getattr(_operators.aten, "linalg_" + name)
        return found
    return _placeholder.attribute(__name__, name)
