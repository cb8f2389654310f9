# torch.Tensor: the native tensor with the methods that are Python's business.
#
# Most methods are operators and come straight from the native module: every name that PyTorch's Tensor has and that our
# operator sets define is put into the class below as a native descriptor. What is written here by hand has a signature
# that the schema does not tell (to, type, split), or is no operator (requires_grad_, deepcopy, repr).
import builtins
import math
import operator
import re

import _atenon

from torch import _dtypes, _modes, _names, _operators, overrides
from torch._operators import aten
from torch._placeholder import Unsupported
from torch._size import Size

_preserve = _dtypes.memory_formats["preserve_format"]
_half, _bfloat16, _float, _double = (_dtypes.named[n] for n in ("float16", "bfloat16", "float32", "float64"))


def _unsupported(name):
    def method(self, *args, **kwargs):
        raise Unsupported(f"torch.Tensor.{name} is not supported", f"torch.Tensor.{name}")

    method.__name__ = name
    return method


def _operator_methods():
    methods = {}
    for name in _names.of("torch.Tensor"):
        methods[name] = _atenon.method(f"aten::{name}") if _operators.exists(name) else _unsupported(name)
    return methods


def _becoming(name):
    """unsqueeze_ and its like: the tensor becomes the view that the method without _ gives."""

    def method(self, *args, **kwargs):
        made = getattr(self, name)(*args, **kwargs)
        if name == "squeeze" and made.dim() == self.dim():  # there was nothing to squeeze: an input may stay as it is, too
            return self
        return _atenon.become(self, made)

    method.__name__ = name + "_"
    return method


def _cast(name, dtype_name):
    dtype = _dtypes.named[dtype_name]

    def method(self, memory_format=_preserve):
        return self.to(dtype)

    method.__name__ = name
    return method


class Tensor(_atenon.Tensor):
    __module__ = "torch"

    # What other devices and layouts would answer.
    is_cuda = is_xpu = is_mps = is_meta = is_sparse = is_sparse_csr = is_quantized = is_nested = is_mkldnn = False
    is_cpu = True
    layout = _dtypes.layouts["strided"]
    is_hpu = is_ipu = is_maia = is_mtia = is_vulkan = is_xla = False
    names = property(lambda self: (None,) * self.dim())
    grad_fn = None
    output_nr = 0
    retains_grad = False
    _backward_hooks = None
    _cdata = property(id)  # an address in PyTorch: libraries ask by it whether two tensors are one

    for _name, _method in _operator_methods().items():
        if not hasattr(_atenon.Tensor, _name):
            vars().setdefault(_name, _method)
    for _name in ("as_strided", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze"):
        vars()[_name + "_"] = _becoming(_name)
    del _name, _method

    def __new__(cls, *args, device=None):
        made = _made_as(_dtypes.name_of(_modes.get_default_dtype()), args)
        return made if cls is Tensor else _made_subclass(cls, made, False)

    # --- Types and devices

    def to(self, *args, **kwargs):
        device, dtype, non_blocking, copy, memory_format = _conversion(*args, **kwargs)
        _atenon.check_device(device)
        if memory_format is None:
            memory_format = _preserve
        if dtype is not None and dtype != self.dtype:
            return aten.to(self, dtype, non_blocking, copy, memory_format)
        if copy:
            return self.clone(memory_format=memory_format)
        return self if memory_format is _preserve else self.contiguous(memory_format=memory_format)

    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            return f"torch.{_dtypes.legacy_names[_dtypes.name_of(self.dtype)]}"
        if isinstance(dtype, _dtypes.dtype):
            return self.to(dtype)
        if not isinstance(dtype, (str, builtins.type)):
            raise TypeError("dtype must be a type, str, or dtype object")
        legacy = (dtype if isinstance(dtype, str) else dtype.__name__).split(".")[-1]
        named = next((_dtypes.named[n] for n, l in _dtypes.legacy_names.items() if l == legacy), None)
        if dtype is Tensor:
            named = _modes.get_default_dtype()
        if named is None:
            raise ValueError(f"invalid type: '{dtype}'")
        return self.to(named)

    def type_as(self, other):
        return self.to(other.dtype)

    def cpu(self, memory_format=_preserve):
        return self

    def cuda(self, device=None, non_blocking=False, memory_format=_preserve):
        _atenon.check_device("cuda")
        return self

    for _name, _dtype in (
            ("half", "float16"), ("bfloat16", "bfloat16"), ("float", "float32"), ("double", "float64"), ("char", "int8"), ("short", "int16"),
            ("int", "int32"), ("long", "int64"), ("byte", "uint8"), ("bool", "bool"), ("cfloat", "complex64"), ("cdouble", "complex128")):
        vars()[_name] = _cast(_name, _dtype)
    del _name, _dtype

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def is_complex(self):
        return self.dtype.is_complex

    def is_signed(self):
        return self.dtype not in (_dtypes.named["uint8"], _dtypes.named["bool"])

    def is_nonzero(self):
        if self.numel() != 1:
            raise RuntimeError(f"Boolean value of Tensor with {'no values' if self.numel() == 0 else 'more than one value'} is ambiguous")
        return builtins.bool(self.reshape(()))

    def is_same_size(self, other):
        return self.shape == other.shape

    def get_device(self):
        return -1

    # --- Structure

    def ndimension(self):
        return self.dim()

    def nelement(self):
        return self.numel()

    nbytes = property(lambda self: self.numel() * self.element_size())
    itemsize = property(lambda self: self.element_size())

    def dim_order(self):
        return tuple(range(self.dim()))

    @property
    def T(self):
        return self if self.dim() < 2 else self.permute(*reversed(range(self.dim())))

    @property
    def mT(self):
        return self.transpose(-2, -1) if self.dim() > 0 else self

    @property
    def H(self):
        if self.dim() not in (0, 2):
            raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.dim()}-D tensor.")
        return self.mH

    @property
    def mH(self):
        transposed = self.mT
        return transposed.conj() if self.is_complex() else transposed

    @property
    def real(self):
        return aten.real(self) if self.is_complex() else self

    @real.setter
    def real(self, value):
        self.real.copy_(value)

    @property
    def imag(self):
        return aten.imag(self)

    @imag.setter
    def imag(self, value):
        self.imag.copy_(value)

    def fill_diagonal_(self, fill_value, wrap=False):
        if self.dim() < 2 or (self.dim() > 2 and len(set(self.shape)) > 1):
            raise RuntimeError("fill_diagonal_ takes a matrix, or a tensor whose sizes are all the same")
        diagonal = self
        while diagonal.dim() > 1:
            diagonal = diagonal.diagonal(0, 0, -1)
        diagonal.fill_(fill_value)
        if wrap and self.dim() == 2 and self.shape[0] > self.shape[1] + 1:
            self[self.shape[1] + 1 :].fill_diagonal_(fill_value, wrap)
        return self

    def split(self, split_size, dim=0):
        if isinstance(split_size, (list, tuple)):
            return aten.split_with_sizes(self, split_size, dim)
        return aten.split(self, split_size, dim)

    def ravel(self):
        return self.contiguous().view(-1)

    def unflatten(self, dim, sizes):
        return aten.unflatten(self, dim, tuple(sizes))

    def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
        from torch import _functional

        return _functional.unique(self, sorted, return_inverse, return_counts, dim)

    def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
        from torch import _functional

        return _functional.unique_consecutive(self, return_inverse, return_counts, dim)

    def to_dense(self, dtype=None, *, masked_grad=None):
        return self if dtype is None else self.to(dtype)

    def to_sparse(self, sparse_dim=None, **options):
        from torch import _sparse

        return _sparse.from_dense(self, sparse_dim, **options)

    to_sparse_coo = to_sparse

    def to_sparse_csr(self, dense_dim=None):
        return self.to_sparse(layout=_dtypes.layouts["sparse_csr"])

    def where(self, condition, other):
        return aten.where(condition, self, other)

    def nonzero(self, *, as_tuple=False):
        return aten.nonzero_numpy(self) if as_tuple else aten.nonzero(self)

    def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
        from torch import _functional

        return _functional.norm(self, p, dim, keepdim, dtype=dtype)

    def stft(self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
             onesided=None, return_complex=None, align_to_window=None):
        from torch import _functional

        return _functional.stft(self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
                                return_complex, align_to_window)

    def __pow__(self, exponent):
        return _atenon.Tensor.__pow__(self, exponent)

    def __ipow__(self, exponent):
        return _atenon.Tensor.__ipow__(self, exponent)

    def __rdiv__(self, other):
        return self.reciprocal() * other

    def __contains__(self, element):
        return builtins.bool((self == element).any())

    def __reversed__(self):
        return aten.flip(self, [0]) if self.dim() > 0 else self

    def set_(self, source=None, *geometry):
        if source is None and not geometry:
            source = aten.empty([0], dtype=self.dtype)
        if not isinstance(source, Tensor) or geometry:
            raise NotImplementedError("torch.Tensor.set_ takes another tensor here, and no storage")
        return _atenon.become(self, source)

    # --- New tensors like this one

    def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
        made = _atenon.tensor(data, dtype=dtype or self.dtype)
        made.requires_grad = requires_grad
        return made

    def new(self, *args):
        return _made_as(_dtypes.name_of(self.dtype), args)

    # --- Random contents. The native draws are lazy: a draw that is overwritten unread only advances the generator.

    def uniform_(self, from_=0.0, to=1.0, *, generator=None, **keywords):
        return _atenon.uniform_(self, keywords.get("from", from_), to, generator)

    def normal_(self, mean=0.0, std=1.0, *, generator=None):
        return _atenon.normal_(self, mean, std, generator)

    def bernoulli_(self, p=0.5, *, generator=None):
        return _atenon.bernoulli_(self, p, generator)

    def exponential_(self, lambd=1.0, *, generator=None):
        return _atenon.exponential_(self, lambd, generator)

    # These two are drawn by doubles, one by one, whatever the tensor's type.

    def geometric_(self, p, *, generator=None):
        drawn = aten.empty(self.shape, dtype=_double).uniform_(generator=generator)
        return self.copy_((drawn.log() / math.log1p(-p)).ceil())

    def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
        drawn = aten.empty(self.shape, dtype=_double).uniform_(generator=generator)
        return self.copy_(median + sigma * aten.tan(math.pi * (drawn - 0.5)))

    def random_(self, low=None, high=None, *, generator=None):
        if high is None:
            low, high = 0, low
        return _atenon.random_(self, low, high, generator)

    # --- Gradients, which we never compute

    def requires_grad_(self, requires_grad=True):
        self.requires_grad = requires_grad
        return self

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        raise NotImplementedError("torch.Tensor.backward is not supported: Atenon compiles inference")

    def register_hook(self, hook):
        raise NotImplementedError("torch.Tensor.register_hook is not supported: Atenon compiles inference")

    def retain_grad(self):
        pass

    # --- Storage

    def share_memory_(self):
        return self

    def is_shared(self):
        return False

    def pin_memory(self, device=None):
        return self

    def is_pinned(self, device=None):
        return False

    def is_inference(self):
        return False

    def as_subclass(self, cls):
        return _made_subclass(cls, self, _atenon.Tensor.requires_grad.__get__(self))

    @staticmethod
    def _make_subclass(cls, data, require_grad=False, **options):
        return _made_subclass(cls, data, require_grad)

    def is_conj(self):
        return False

    def is_neg(self):
        return False

    def __copy__(self):
        copied = _atenon.make_subclass(builtins.type(self), self.detach(), self.requires_grad)
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copied = _atenon.make_subclass(builtins.type(self), self.detach().clone(), self.requires_grad)
        memo[id(self)] = copied
        copy_attributes(self, copied, memo)
        return copied

    def __reduce_ex__(self, protocol):
        from torch.serialization import reduced

        made, arguments = reduced(self)
        if builtins.type(self) is Tensor and not self.__dict__:
            return made, arguments
        return _rebuild_from_type_v2, (made, builtins.type(self), arguments, self.__getstate__())

    def __format__(self, specification):
        if self.dim() == 0 and not self._is_traced:
            return self.item().__format__(specification)
        if self.dim() == 0:  # in a message, to the width that is asked for, as a size is
            return format(str(self), re.sub(r"[,_+=#z -]|\.\d+|[a-zA-Z%]$", "", specification))
        return object.__format__(self, specification)

    def __repr__(self, *, tensor_contents=None):
        dtype = self.dtype
        plain = dtype in (_float, _dtypes.named["int64"], _dtypes.named["bool"])
        suffix = "" if plain else f", dtype={dtype}"
        if self._is_traced or self.numel() > 1000:
            return f"tensor(..., size={tuple(self.shape)}{suffix})"
        return f"tensor({_nested(self.tolist())}{suffix})"

    __array_priority__ = 1000  # NumPy's numbers leave operators to us

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return _atenon.tensor(array)

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        overrides.watch(cls)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not builtins.all(issubclass(cls, other) for other in types):
            return NotImplemented
        with overrides.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            return result if func in overrides.get_default_nowrap_functions() else overrides.as_class(result, cls)


Tensor.detach = _atenon.Tensor.detach  # overridable, too
Tensor.__pow__.__name__, Tensor.__ipow__.__name__ = "pow", "pow_"  # functions of their own, which PyTorch names so
overrides.make_overridable(Tensor)
Tensor.__neg__, Tensor.__abs__, Tensor.__rtruediv__ = Tensor.neg, Tensor.abs, Tensor.__rdiv__  # operators are known by these


def _conversion(*args, **kwargs):
    """What `to` is asked for: (device, dtype, non_blocking, copy, memory_format)."""
    def of_device(device=None, dtype=None, non_blocking=False, copy=False, *, memory_format=None):
        return device, dtype, non_blocking, copy, memory_format

    def of_dtype(dtype, non_blocking=False, copy=False, *, memory_format=None):
        return None, dtype, non_blocking, copy, memory_format

    def of_tensor(tensor, non_blocking=False, copy=False, *, memory_format=None):
        return tensor.device, tensor.dtype, non_blocking, copy, memory_format

    first = args[0] if args else kwargs.get("tensor")
    form = of_tensor if isinstance(first, _atenon.Tensor) else of_dtype if _dtypes.is_dtype(first) else of_device
    try:
        device, dtype, non_blocking, copy, memory_format = form(*args, **kwargs)
        is_device = device is None or isinstance(device, (str, _atenon.device)) or builtins.type(device) is builtins.int
        is_well = (is_device and (dtype is None or _dtypes.is_dtype(dtype))
                   and isinstance(non_blocking, builtins.bool) and isinstance(copy, builtins.bool)
                   and (memory_format is None or isinstance(memory_format, _dtypes.memory_format)))
    except TypeError:
        is_well = False
    if not is_well:
        got = [builtins.type(value).__name__ for value in args]
        got += [f"{name}={builtins.type(value).__name__}" for name, value in kwargs.items()]
        raise TypeError("to() takes (device, dtype, non_blocking, copy), (dtype, non_blocking, copy) or (tensor, non_blocking, copy), and "
                        f"memory_format by name, not ({', '.join(got)})")
    return device, _dtypes.of_python.get(dtype, dtype), non_blocking, copy, memory_format


def parse_to(*args, **kwargs):
    """What a `to` of a module's or of a library's own is asked for: (device, dtype, non_blocking, memory_format)."""
    device, dtype, non_blocking, copy, memory_format = _conversion(*args, **kwargs)
    if copy:
        raise RuntimeError(".to() does not accept copy argument")
    if isinstance(device, builtins.int):
        _atenon.check_device(device)
    return None if device is None else _atenon.device(device), dtype, non_blocking, memory_format


def _made_subclass(cls, data, requires_grad):
    own = getattr(cls, "__torch_dispatch__", None)
    if own is not None and own is not overrides.disabled_torch_dispatch:
        raise overrides.no_dispatch(cls)
    return _atenon.make_subclass(cls, data, requires_grad)


def _rebuild_from_type_v2(func, new_type, args, state):
    made = func(*args)
    if builtins.type(made) is not new_type:
        made = made.as_subclass(new_type)
    if hasattr(new_type, "__setstate__"):
        made.__setstate__(state)
    else:
        made.__dict__.update(state or {})
    return made


def copy_attributes(source, target, memo=None):
    """Copies what user code hung onto a tensor (p._is_hf_initialized = True)."""
    import copy

    for name, value in source.__dict__.items():
        target.__dict__[name] = copy.deepcopy(value, memo)


def _nested(value):
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested, value)) + "]"
    return f"{value:.4f}" if isinstance(value, builtins.float) else str(value)


class _LegacyMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype and not instance.is_sparse


def _made_as(name, args):
    """What the older constructors make: torch.FloatTensor(2, 3) of sizes, torch.FloatTensor([2, 3]) of data."""
    dtype = _dtypes.named[name]
    if len(args) == 1 and isinstance(args[0], Size):
        args = tuple(args[0])
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].as_subclass(Tensor).to(dtype)
    if len(args) == 1 and getattr(args[0], "ndim", None) == 0:  # an integer of NumPy's is a size as well, any other array data
        try:
            args = (operator.index(args[0]),)
        except TypeError:
            pass
    if len(args) == 1 and (not isinstance(args[0], builtins.int) or isinstance(args[0], builtins.bool)):
        if not hasattr(args[0], "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {builtins.type(args[0]).__name__})")
        return _atenon.tensor(args[0], dtype=dtype)
    return _atenon.empty(args or (0,), dtype=dtype)


def _legacy_new(cls, *args, device=None):
    return _made_as(_dtypes.name_of(cls.dtype), args)


# torch.LongTensor and its like: made from data or sizes, and told by isinstance from their element type.
legacy_types = {
    legacy: _LegacyMeta(legacy, (), {"__module__": "torch", "dtype": _dtypes.named[name], "__new__": _legacy_new})
    for name, legacy in _dtypes.legacy_names.items()
}
