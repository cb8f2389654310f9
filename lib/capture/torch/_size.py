# torch.Size: a tuple of sizes, whose slices and sums are Sizes too. Entries are ints or native symbolic ints.
import math


class Size(tuple):
    __slots__ = ()
    __module__ = "torch"

    def numel(self):
        return math.prod(self)

    def __add__(self, other):
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other):
        return Size(tuple(other) + tuple(self))

    def __mul__(self, count):
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __getitem__(self, index):
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __repr__(self):
        return f"torch.Size([{', '.join(map(repr, self))}])"

    __str__ = __repr__

    def __reduce__(self):
        return (Size, (tuple(self),))
