# Padding. All of them are one function over dimensions, mode and value; the classes below differ in those only.
from torch.nn import functional as F
from torch.nn.modules.module import Module
from torch.nn.modules.utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d",
    "ZeroPad3d",
]

_sextuple = _ntuple(6)


class _ConstantPadNd(Module):
    __constants__ = ["padding", "value"]

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    def __init__(self, padding, value):
        super().__init__(value)
        self.padding = _pair(padding)


class ConstantPad2d(_ConstantPadNd):
    def __init__(self, padding, value):
        super().__init__(value)
        self.padding = _quadruple(padding)


class ConstantPad3d(_ConstantPadNd):
    def __init__(self, padding, value):
        super().__init__(value)
        self.padding = _sextuple(padding)


class ZeroPad1d(ConstantPad1d):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
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


class CircularPad1d(_CircularPadNd):
    _spread = staticmethod(_pair)


class CircularPad2d(_CircularPadNd):
    _spread = staticmethod(_quadruple)


class CircularPad3d(_CircularPadNd):
    _spread = staticmethod(_sextuple)


class ReflectionPad1d(_ReflectionPadNd):
    _spread = staticmethod(_pair)


class ReflectionPad2d(_ReflectionPadNd):
    _spread = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    _spread = staticmethod(_sextuple)


class ReplicationPad1d(_ReplicationPadNd):
    _spread = staticmethod(_pair)


class ReplicationPad2d(_ReplicationPadNd):
    _spread = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    _spread = staticmethod(_sextuple)
