# torch.fft: operators whose ATen names begin with fft_.
from torch import _operators, _placeholder


def __getattr__(name):
    if _operators.exists("fft_" + name):
        found = globals()[name] = getattr(_operators.aten, "fft_" + name)
        return found
    return _placeholder.attribute(__name__, name)
