# Element types and what is known of their numbers: torch.float32, torch.finfo, torch.iinfo.
#
# The types themselves are native objects, also those that no tensor has here: they may be named and compared. This file
# gives them PyTorch's names. Aliases (torch.float is torch.float32) are the same object, so `x.dtype == torch.float` and `is` hold
# as in PyTorch.
import _atenon

dtype = _atenon.dtype

_aliases = {
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32", "long": "int64",
    "cfloat": "complex64", "cdouble": "complex128", "chalf": "complex32", "bit": "uint1",
}

named = dict(_atenon.dtypes)
named.update({alias: named[name] for alias, name in _aliases.items()})

# The legacy tensor type of each element type, as Tensor.type() prints it.
legacy_names = {
    "float32": "FloatTensor", "float64": "DoubleTensor", "float16": "HalfTensor", "bfloat16": "BFloat16Tensor",
    "int64": "LongTensor", "int32": "IntTensor", "int16": "ShortTensor", "int8": "CharTensor", "uint8": "ByteTensor",
    "bool": "BoolTensor",
}


of_python = {float: named["float64"], complex: named["complex128"], int: named["int64"], bool: named["bool"]}


def is_dtype(value):
    """Is it a dtype, or the Python type whose numbers one holds?"""
    return isinstance(value, dtype) or (isinstance(value, type) and value in of_python)


def name_of(element_type):
    """Of a dtype, or of the Python type whose numbers it holds."""
    return str(of_python.get(element_type, element_type)).removeprefix("torch.")


_short_names = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "b8"}


def short_name(element_type):
    """f32, i64, b8: as graphs are printed."""
    name = name_of(element_type)
    letters = name.rstrip("0123456789")
    return _short_names[letters] + name[len(letters):]


class finfo:
    """Numerical limits of a floating-point type."""

    # mantissa bits without the hidden one, smallest normal exponent, largest finite value, decimal resolution
    _formats = {
        "float16": (16, 10, -14, 65504.0, 1e-3),
        "bfloat16": (16, 7, -126, (2 - 2.0**-7) * 2.0**127, 1e-2),
        "float32": (32, 23, -126, (2 - 2.0**-23) * 2.0**127, 1e-6),
        "float64": (64, 52, -1022, (2 - 2.0**-52) * 2.0**1023, 1e-15),
        "float8_e4m3fn": (8, 3, -6, 448.0, 1.0),
        "float8_e4m3fnuz": (8, 3, -7, 240.0, 1.0),
        "float8_e5m2": (8, 2, -14, 57344.0, 1.0),
        "float8_e5m2fnuz": (8, 3, -15, 57344.0, 1.0),
    }
    _parts = {"complex64": "float32", "complex128": "float64"}

    def __init__(self, type=None):
        from torch import _modes

        name = name_of(_modes.get_default_dtype() if type is None else type)
        name = self._parts.get(name, name)
        if name not in self._formats:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.{name}'")
        self.bits, mantissa, exponent, self.max, self.resolution = self._formats[name]
        self.eps = 2.0**-mantissa
        self.tiny = self.smallest_normal = 2.0**exponent
        self.smallest_subnormal = 2.0 ** (exponent - mantissa)
        self.min = -self.max
        self.dtype = name

    def __eq__(self, other):
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self):
        return hash(self.dtype)

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """Numerical limits of an integer type."""

    def __init__(self, type):
        name = name_of(type)
        bits = name.removeprefix("u").removeprefix("int")
        if not bits.isdigit() or int(bits) < 8:  # narrower ones are types without numbers, as in PyTorch
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.{name}'")
        self.bits = int(bits)
        self.min = 0 if name.startswith("u") else -(2 ** (self.bits - 1))
        self.max = self.min + 2**self.bits - 1
        self.dtype = name

    def __eq__(self, other):
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self):
        return hash(self.dtype)

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


class _Named:
    """A constant that is only compared and printed: memory formats, layouts."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name

    def __deepcopy__(self, memo):
        return self


class layout(_Named):
    __slots__ = ()


class memory_format(_Named):
    __slots__ = ()


class qscheme(_Named):
    __slots__ = ()


layouts = {n: layout(n) for n in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")}
memory_formats = {n: memory_format(n) for n in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")}
qschemes = {n: qscheme(n) for n in ("per_tensor_affine", "per_channel_affine", "per_tensor_symmetric",
                                    "per_channel_symmetric")}
