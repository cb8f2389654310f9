# Functions of torch that are not one operator under their own name: constructors, functions over several tensors, symbolic
# numbers, assertions, random state.
import builtins
import math

import _atenon

from torch import _modes, overrides
from torch._operators import aten
from torch._size import Size
from torch._tensor import Tensor

__all__ = [
    "AcceleratorError", "OutOfMemoryError",
    "as_tensor", "asarray", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "can_cast", "cartesian_prod", "cdist", "chain_matmul", "clear_autocast_cache", "combinations", "compile", "einsum",
    "from_numpy", "full", "get_device_module", "get_rng_state", "gradient", "initial_seed", "is_complex", "is_conj", "is_distributed",
    "is_floating_point", "is_inference", "is_neg", "is_nonzero", "is_same_size", "is_signed", "is_storage", "is_tensor",
    "is_warn_always_enabled", "istft", "manual_seed", "meshgrid", "nonzero", "norm", "numel",
    "promote_types", "range", "ravel", "result_type", "seed", "set_rng_state", "set_warn_always", "split", "stft", "sym_float",
    "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum", "tensor", "tensordot", "typename",
    "unique", "unique_consecutive", "unravel_index", "vander", "_assert", "_assert_async", "_check", "_check_is_size", "_check_index",
    "_check_not_implemented", "_check_tensor_all", "_check_type", "_check_value", "_check_with", "_shape_as_tensor",
]


# --- Tensors from Python values


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False, names=None):
    if device is not None:
        _atenon.check_device(device)
    if isinstance(data, Tensor):
        data = data.as_subclass(Tensor)
        made = data.clone() if dtype is None else data.to(dtype, copy=True)
    else:
        made = _atenon.tensor(data, dtype=dtype)
    if requires_grad:
        made.requires_grad = True
    return made


def as_tensor(data, dtype=None, device=None):
    if device is not None:
        _atenon.check_device(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    return _atenon.tensor(data, dtype=dtype)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    made = as_tensor(obj, dtype, device)
    if copy and made is obj:
        made = made.clone()
    if requires_grad:
        made.requires_grad = True
    return made


def from_numpy(array):
    return _atenon.tensor_over(array)


def full(size, fill_value, **options):
    return aten.full(size, fill_value.item() if isinstance(fill_value, Tensor) else fill_value, **options)


def range(start=0, end=None, step=1, *, dtype=None, **options):
    if end is None:
        start, end = 0, start
    if dtype is None:
        dtype = _modes.get_default_dtype()
    return aten.arange(start, end + step / 2, step, dtype=dtype, **options)


# --- What a value is


def is_tensor(obj):
    return isinstance(obj, Tensor)


def is_storage(obj):
    return False


def is_distributed(obj):
    return False


def is_floating_point(input):
    return input.dtype.is_floating_point


def is_complex(input):
    return input.dtype.is_complex


def is_signed(input):
    return input.is_signed()


def is_nonzero(input):
    return input.is_nonzero()


def is_same_size(input, other):
    return input.is_same_size(other)


def is_inference(input):
    return False


def is_conj(input):
    return False


is_neg = is_conj


def numel(input):
    return input.numel()


def typename(obj):
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"


def promote_types(type1, type2):
    return _atenon.promote_types(type1, type2)


def result_type(tensor1, tensor2):
    def category(dtype):
        return 2 + dtype.is_complex if dtype.is_floating_point or dtype.is_complex else str(dtype) != "torch.bool"

    def described(value):  # its type, and its rank among those that decide: tensors with dimensions, 0-dim tensors, numbers
        if isinstance(value, Tensor):
            return value.dtype, 2 if value.dim() else 1
        if isinstance(value, complex):
            return _modes._dtypes.named["complex64"], 0
        if isinstance(value, builtins.float):
            return _modes.get_default_dtype(), 0
        return _modes._dtypes.named["bool" if isinstance(value, builtins.bool) else "int64"], 0

    (first, rank1), (second, rank2) = described(tensor1), described(tensor2)
    if rank1 > rank2 and category(first) >= category(second):
        return first
    if rank2 > rank1 and category(second) >= category(first):
        return second
    return promote_types(first, second)


def can_cast(from_, to):
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and not (to.is_floating_point or to.is_complex):
        return False
    return not (str(to) == "torch.bool" and from_ is not to)


def _shape_as_tensor(input):
    return _atenon.tensor(list(input.shape), dtype=None)


# --- Several tensors


def _spread(tensors):
    """f(a, b) and f([a, b]) are the same call."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return list(tensors[0])
    return list(tensors)


def broadcast_tensors(*tensors):
    return aten.broadcast_tensors(_spread(tensors))


def broadcast_shapes(*shapes):
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    rank = builtins.max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for position, size in enumerate(shape, rank - len(shape)):
            if type(size) is int and size == 1:
                continue
            if type(result[position]) is int and result[position] == 1:
                result[position] = size
            elif result[position] != size:
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
    return Size(result)


def meshgrid(*tensors, indexing=None):
    return aten.meshgrid(_spread(tensors), indexing=indexing or "ij")


def einsum(*args):
    equation, operands = args[0], args[1:]
    if isinstance(equation, Tensor):
        equation, operands = _equation(args)
    return aten.einsum(equation, _spread(operands))


def _equation(args):
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) in letters."""
    def letters(subscripts):
        return "".join("..." if s is Ellipsis else chr(ord("a") + s if s < 26 else ord("A") + s - 26) for s in subscripts)

    operands, inputs = args[0 : len(args) // 2 * 2 : 2], args[1::2]
    equation = ",".join(map(letters, inputs))
    return equation + ("->" + letters(args[-1]) if len(args) % 2 else ""), operands


def cartesian_prod(*tensors):
    return aten.cartesian_prod(_spread(tensors))


def block_diag(*tensors):
    return aten.block_diag(_spread(tensors))


def combinations(input, r=2, with_replacement=False):
    if input.dim() != 1:
        raise RuntimeError(f"combinations takes a vector, not rank {input.dim()}")
    if r < 0:
        raise RuntimeError(f"combinations are of at least 0 elements, not {r}")
    if r == 0:
        return input.new_empty(0)
    places = [p.reshape(-1) for p in aten.meshgrid([aten.arange(input.shape[0])] * r, indexing="ij")]
    kept = aten.ones_like(places[0], dtype=_modes._dtypes.named["bool"])
    for left, right in zip(places, places[1:]):
        kept = kept & (left <= right if with_replacement else left < right)
    chosen = aten.nonzero(kept).reshape(-1)
    return aten.stack([input[p[chosen]] for p in places], 1)


def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """Second-order differences inside, `edge_order` at the ends. `spacing`: one number, one for each axis, or the axes' coordinates."""
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    axes = list(builtins.range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    axes = [axis + input.dim() if axis < 0 else axis for axis in axes]
    if any(not 0 <= axis < input.dim() for axis in axes) or len(set(axes)) < len(axes):
        raise RuntimeError(f"torch.gradient expected each dim once and within the {input.dim()} of its input, not {dim}")
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [1 if spacing is None else spacing] * len(axes)
    if len(steps) != len(axes):
        raise RuntimeError(f"torch.gradient expected {len(axes)} spacings, not {len(steps)}")
    if any(input.shape[axis] <= edge_order for axis in axes):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(_gradient(input, axis, step, edge_order) for axis, step in zip(axes, steps))


def _gradient(input, axis, step, edge_order):
    n = input.shape[axis]

    def part(x, begin, end):
        return aten.slice(x, axis, begin, end)

    if isinstance(step, Tensor):
        gaps = aten.diff(step).reshape([-1] + [1] * (input.dim() - axis - 1))
        before, after = aten.slice(gaps, 0, 0, n - 2), aten.slice(gaps, 0, 1, n - 1)
        first, last = aten.slice(gaps, 0, 0, 1), aten.slice(gaps, 0, n - 2, n - 1)
        left, right = -after / (before * (before + after)), before / (after * (before + after))
        inner = left * part(input, 0, n - 2) + (after - before) / (before * after) * part(input, 1, n - 1) + right * part(input, 2, n)
    else:
        first = last = step
        inner = (part(input, 2, n) - part(input, 0, n - 2)) / (2 * step)
    if edge_order == 1:
        begin = (part(input, 1, 2) - part(input, 0, 1)) / first
        end = (part(input, n - 1, n) - part(input, n - 2, n - 1)) / last
    elif isinstance(step, Tensor):
        second, fore = aten.slice(gaps, 0, 1, 2), aten.slice(gaps, 0, n - 3, n - 2)
        begin = (-(2 * first + second) / (first * (first + second)) * part(input, 0, 1)
                 + (first + second) / (first * second) * part(input, 1, 2) - first / (second * (first + second)) * part(input, 2, 3))
        end = (last / (fore * (fore + last)) * part(input, n - 3, n - 2) - (fore + last) / (fore * last) * part(input, n - 2, n - 1)
               + (2 * last + fore) / (last * (fore + last)) * part(input, n - 1, n))
    else:
        begin = (-1.5 * part(input, 0, 1) + 2 * part(input, 1, 2) - 0.5 * part(input, 2, 3)) / step
        end = (0.5 * part(input, n - 3, n - 2) - 2 * part(input, n - 2, n - 1) + 1.5 * part(input, n - 1, n)) / step
    return aten.cat([begin, inner, end], axis)


def _at_least(rank, tensors):
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _lifted(tensors[0], rank)
    return tuple(_lifted(t, rank) for t in _spread(tensors))


def _lifted(tensor, rank):
    """The tensor itself, or a view of it with as many axes."""
    if tensor.dim() == 0:
        return tensor.reshape([1] * rank)
    if tensor.dim() == 1 and rank > 1:
        tensor = tensor.unsqueeze(0)
    return tensor.unsqueeze(-1) if tensor.dim() == 2 and rank > 2 else tensor


def atleast_1d(*tensors):
    return _at_least(1, tensors)


def atleast_2d(*tensors):
    return _at_least(2, tensors)


def atleast_3d(*tensors):
    return _at_least(3, tensors)


def chain_matmul(*matrices, out=None):
    return aten.chain_matmul(_spread(matrices), out=out)


def tensordot(a, b, dims=2, out=None):
    if isinstance(dims, int):
        dims = [list(builtins.range(a.dim() - dims, a.dim())), list(builtins.range(dims))]
    elif isinstance(dims, Tensor):
        dims = dims.tolist()
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    return aten.tensordot(a, b, first, second, out=out)


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    modes = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2}
    return aten.cdist(x1, x2, p, modes[compute_mode])


# --- One tensor


def split(tensor, split_size_or_sections, dim=0):
    return tensor.split(split_size_or_sections, dim)


def nonzero(input, *, as_tuple=False):
    return aten.nonzero_numpy(input) if as_tuple else aten.nonzero(input)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    dims = [dim] if isinstance(dim, int) else dim
    if p == "nuc":
        return aten.nuclear_norm(input, *([] if dims is None else [dims]), keepdim, out=out)
    order = 2.0 if p in ("fro", None) else p
    return aten.linalg_vector_norm(input, order, dims, keepdim, dtype=dtype, out=out)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is None:
        results = aten._unique2(input, sorted, return_inverse, return_counts)
    else:
        results = aten.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _chosen(results, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    results = aten.unique_consecutive(input, return_inverse, return_counts, dim)
    return _chosen(results, return_inverse, return_counts)


def _chosen(results, return_inverse, return_counts):
    chosen = [results[0]] + [results[1]] * return_inverse + [results[2]] * return_counts
    return chosen[0] if len(chosen) == 1 else tuple(chosen)


def ravel(input):
    return input.ravel()


def unravel_index(indices, shape):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    indices = indices.to(_modes._dtypes.named["int64"])
    coefficients = [math.prod(shape[i + 1 :]) for i in builtins.range(len(shape))]
    return tuple(aten.remainder(aten.floor_divide(indices, c), s) for c, s in zip(coefficients, shape))


def vander(x, N=None, increasing=False):
    return aten.vander(x, N, increasing)


def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
         onesided=None, return_complex=None, align_to_window=None):
    if center:
        leading = input.dim()
        padding = n_fft // 2
        extended = input.view([1] * (3 - leading) + list(input.shape))
        extended = aten.pad(extended, [padding, padding], pad_mode)
        input = extended.view(extended.shape[-leading:])
    return aten.stft(input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window)


def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
          length=None, return_complex=False):
    return aten.istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)


# --- Symbolic numbers


def sym_int(a):
    return _atenon.sym("int", a) if _is_symbolic(a) else int(a)


def sym_float(a):
    return _atenon.sym("float", a) if _is_symbolic(a) else builtins.float(a)


def sym_max(a, b):
    return _atenon.sym("max", a, b) if _is_symbolic(a, b) else builtins.max(a, b)


def sym_min(a, b):
    return _atenon.sym("min", a, b) if _is_symbolic(a, b) else builtins.min(a, b)


def sym_not(a):
    return ~a if isinstance(a, _atenon.SymBool) else not a


def sym_ite(condition, if_true, if_false):
    return if_true if condition else if_false


def sym_sqrt(a):
    return _atenon.sym("sqrt", a) if _is_symbolic(a) else math.sqrt(a)


def sym_sum(numbers):
    return builtins.sum(numbers)


def _is_symbolic(*numbers):
    return builtins.any(isinstance(n, (_atenon.SymInt, _atenon.SymFloat)) for n in numbers)


# --- Assertions. Of sizes: proven, or an assumption of the program. Of data: checked when the program runs.


def _message(message, default):
    return str(message() if callable(message) else message or default)


def _check_with(error, condition, message=None):
    text = _message(message, "Expected cond to be True, but got False.")
    if isinstance(condition, Tensor) and condition._is_traced:
        aten._assert_async(condition, text)
    elif not _atenon.require(condition, text):
        raise error(text)


def _assert_async(input, assert_msg="Expected Tensor with single nonzero value, but got zero"):
    aten._assert_async(input, assert_msg)


def _check(condition, message=None):
    _check_with(RuntimeError, condition, message)


def _check_is_size(size, message=None, *, max=None):
    _check(size >= 0, message or "a size is not negative")
    if max is not None:
        _check(size <= max, message or f"a size is at most {max}")


def _check_index(condition, message=None):
    _check_with(IndexError, condition, message)


def _check_value(condition, message=None):
    _check_with(ValueError, condition, message)


def _check_type(condition, message=None):
    _check_with(TypeError, condition, message)


def _check_not_implemented(condition, message=None):
    _check_with(NotImplementedError, condition, message)


def _check_tensor_all(condition, message=None):
    _check(condition.all(), message)


@overrides.overridable
def _assert(condition, message):
    _check_with(AssertionError, condition, message)


# --- Random state


def manual_seed(seed):
    if _atenon.is_tracing():
        _atenon.fail(314, "forward seeds the generator, which a program does not do",
                     "leave torch.manual_seed out of forward, and run by `atenon run --seed N`")
    return _atenon.default_generator.manual_seed(int(seed))


def seed():
    return _atenon.default_generator.seed()


def initial_seed():
    return _atenon.default_generator.initial_seed()


def get_rng_state():
    return _atenon.default_generator.get_state()


def set_rng_state(new_state):
    _atenon.default_generator.set_state(new_state)


# --- The rest


class AcceleratorError(RuntimeError):
    """Never raised: there are no accelerators."""


class OutOfMemoryError(RuntimeError):
    """Never raised."""


def compile(model=None, **options):
    return (lambda function: function) if model is None else model


def get_device_module(device=None):
    import torch.cpu

    return torch.cpu


def clear_autocast_cache():
    pass


def set_warn_always(value):
    pass


def is_warn_always_enabled():
    return False


# Modes are asked for whatever makes a tensor, classes for what takes tensors alone.
for _name in ("as_tensor", "asarray", "from_numpy", "full", "range", "tensor"):
    globals()[_name] = overrides.overridable(globals()[_name], takes_tensors=False)
for _name in (
        "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul",
        "combinations", "einsum", "gradient", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_nonzero",
        "is_same_size", "is_signed", "istft", "meshgrid", "nonzero", "norm", "numel", "ravel", "result_type", "split", "stft",
        "tensordot", "unique", "unique_consecutive", "unravel_index", "vander"):
    globals()[_name] = overrides.overridable(globals()[_name])
