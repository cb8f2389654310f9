# Padding: one function over dimensions, mode and value. The classes differ in these only, and are made from them.
from torch.nn import functional as F
from torch.nn.common_types import _size_2_t, _size_4_t, _size_6_t
from torch.nn.modules.module import Module
from torch.nn.modules.utils import _ntuple

__all__ = [f"{kind}Pad{rank}d" for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero") for rank in (1, 2, 3)]


class _ConstantPadNd(Module):
    __constants__ = ["padding", "value"]

    def __init__(self, padding, value):
        super().__init__()
        self.padding = self._spread(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class _PadNd(Module):
    __constants__ = ["padding"]

    def __init__(self, padding):
        super().__init__()
        self.padding = self._spread(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    _mode = "circular"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


for _kind in (_ConstantPadNd, _ZeroPadNd, _CircularPadNd, _ReflectionPadNd, _ReplicationPadNd):
    for _rank in (1, 2, 3):
        _name = f"{_kind.__name__[1:-2]}{_rank}d"
        globals()[_name] = type(_name, (_kind,), {"__module__": __name__, "_spread": staticmethod(_ntuple(2 * _rank))})
