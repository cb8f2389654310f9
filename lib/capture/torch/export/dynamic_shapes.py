# Dynamic dimensions: Dim("batch", min=1, max=64), 2 * batch + 1, Dim.AUTO.
#
# `atenon capture` reads __name__, min and max of a Dim; of a derived one its root and the integers a, b of a * root + b;
# and of Dim.AUTO, DYNAMIC and STATIC their `type`.
import enum

from torch import _placeholder

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims"]

_no_limit = 2**63 - 1


class _DimHintType(enum.Enum):
    AUTO = 1
    STATIC = 2
    DYNAMIC = 3


class _DimHint:
    """A dimension without a name: its size is found out, kept fixed, or dynamic in any case."""

    def __init__(self, type, min=None, max=None, _factory=True):
        self.type = type
        self.min = min
        self.max = max
        self._factory = _factory

    def __call__(self, min=None, max=None):
        if not self._factory:
            raise TypeError("'DimHint' object is not callable")
        return _DimHint(self.type, min, max, False)

    def __eq__(self, other):
        return isinstance(other, _DimHint) and (self.type, self.min, self.max) == (other.type, other.min, other.max)

    def __hash__(self):
        return hash((self.type, self.min, self.max))

    def __repr__(self):
        limits = [f"{name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None]
        return f"DimHint.{self.type.name}" + (f"({', '.join(limits)})" if limits else "")


class Dim:
    """A named dynamic dimension, from min to max."""

    AUTO = _DimHint(_DimHintType.AUTO)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    STATIC = _DimHint(_DimHintType.STATIC)

    def __init__(self, name, *, min=None, max=None):
        low, high = 0 if min is None else min, _no_limit if max is None else max
        if not high > low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min = low
        self.max = high

    def __add__(self, other):
        return self._derive(1, self._integer("adding", other))

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self._derive(1, -self._integer("subtracting", other))

    def __rsub__(self, other):
        raise NotImplementedError(f"Attempted to negate {self.__name__}. Please make sure that the root dim is positive.")

    def __mul__(self, other):
        factor = self._integer("multiplying", other)
        if factor <= 0:
            raise NotImplementedError(f"Attempted to multiply {other} with {self.__name__}: only positive integers are supported.")
        return self._derive(factor, 0)

    def __rmul__(self, other):
        return self * other

    def _integer(self, action, other):
        if type(other) is not int:
            raise NotImplementedError(f"Attempted {action} {other} and {self.__name__}: only integers are supported.")
        return other

    def _derive(self, factor, offset):
        return _DerivedDim(self, factor, offset)

    def __repr__(self):
        most = "" if self.max == _no_limit else f", max={self.max}"
        return f"Dim('{self.__name__}', min={self.min}{most})"


class _DerivedDim(Dim):
    """factor * root + offset."""

    def __init__(self, root, factor, offset):
        self.root = root
        self.factor = factor
        self.offset = offset
        product = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = product if offset == 0 else f"{product} {'+' if offset > 0 else '-'} {abs(offset)}"

    @property
    def min(self):
        return self.fn(self.root.min)

    @property
    def max(self):
        return _no_limit if self.root.max == _no_limit else self.fn(self.root.max)

    def fn(self, root):
        return self.factor * root + self.offset

    def _derive(self, factor, offset):
        return _DerivedDim(self.root, self.factor * factor, self.offset * factor + offset)

    def __repr__(self):
        return self.__name__


def dims(*names, min=None, max=None):
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """Dynamic shapes by tensor object instead of by place."""

    def __init__(self):
        self._shapes = {}

    def __setitem__(self, tensor, shape):
        self._shapes[id(tensor)] = shape

    def __getitem__(self, tensor):
        return self._shapes.setdefault(id(tensor), {})

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        from torch.utils._pytree import tree_map

        return tree_map(lambda leaf: self._shapes.get(id(leaf)), (args, kwargs or {}))


class AdditionalInputs:
    """Further example inputs, from which dynamic dimensions can be found."""

    def __init__(self):
        self._examples = []

    def add(self, args, kwargs=None):
        self._examples.append((args, kwargs))


__getattr__ = _placeholder.getter(__name__)
