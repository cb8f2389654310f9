# The rules of batching: how an operator is called where its tensors have a batch.
#
# A function that vmap takes is recorded once, on one example. Then each of its nodes is recorded again for the whole batch: a
# tensor that depends on the batch is `Batched`, with the batch as its first dimension; any other is as it is. What works element by
# element needs no rule of its own, nor what decomposes into operators that have one; a node without a rule becomes a loop.
import dataclasses
import functools
import math

import _atenon

from torch._higher_order_ops import map as loop
from torch._tensor import Tensor


@dataclasses.dataclass
class Batched:
    tensor: Tensor

    rank = property(lambda self: self.tensor.dim() - 1)  # of one example


class Unbatchable(Exception):
    """The function has something in it that only a loop over the whole of it can do."""


rules = {}  # operator -> function(call, *arguments, **keywords) that gives results with a batch


def _rule(*names, namespace="aten"):
    def add(function):
        rules.update((f"{namespace}::{name}", function) for name in names)
        return function

    return add


@dataclasses.dataclass
class _Call:
    target: str
    size: int  # of the batch

    def __call__(self, *args, **kwargs):
        return _atenon.call(self.target, *args, **kwargs)

    def whole(self, value):
        """With a batch, also where there was none; None and numbers as they are."""
        if isinstance(value, (list, tuple)):
            return [self.whole(v) for v in value]
        if isinstance(value, Batched):
            return value.tensor
        return value.expand(self.size, *value.shape) if isinstance(value, Tensor) else value


def _leaves(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        elif isinstance(value, (Batched, Tensor)):
            yield value


def _rank(value):
    return value.rank if isinstance(value, Batched) else value.dim()


def _dtype(value):
    return (value.tensor if isinstance(value, Batched) else value).dtype


def _padded(value, rank):
    """A tensor that broadcasts from the right as it would without its batch."""
    if not isinstance(value, Batched):
        return value
    tensor = value.tensor
    for _ in range(rank - value.rank):
        tensor = tensor.unsqueeze(1)
    return tensor


def _shifted(dim):
    if isinstance(dim, (list, tuple)):
        return [_shifted(d) for d in dim]
    return dim + 1 if dim is not None and dim >= 0 else dim


def _plain(values):
    return not any(isinstance(v, Batched) for v in _leaves(values))


# --- Element by element


def _kind(dtype):
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == _atenon.dtypes["bool"] else 1


def elementwise(call, *args, **kwargs):
    """Numbers of one example (rank 0) count less than tensors when types are promoted; with a batch they would not."""
    values = list(_leaves((*args, *kwargs.values())))
    rank = max(_rank(v) for v in values)
    deciding = [v for v in values if _rank(v) == rank]
    common = functools.reduce(_atenon.promote_types, (_dtype(v) for v in deciding))

    def prepared(value):
        if isinstance(value, (list, tuple)):
            return [prepared(v) for v in value]
        tensor = _padded(value, rank)
        counts_less = isinstance(value, Batched) and (value.rank < rank or rank == 0) and 0 < _kind(tensor.dtype) <= _kind(common)
        return tensor.to(common) if counts_less else tensor

    return call(*map_(prepared, args), **{name: prepared(value) for name, value in kwargs.items()})


def map_(function, values):
    return [function(value) for value in values]


@_rule("copy", "fill.Tensor")
def _(call, x, source, non_blocking=False):
    """What was the same for all examples is written for each."""
    return _atenon.call("aten::copy", call.whole(x), _padded(source, _rank(x)))


@_rule("masked_fill.Tensor")
def _(call, x, mask, value):
    value = Batched(value.tensor.to(_dtype(x))) if isinstance(value, Batched) else value.to(_dtype(x))
    return elementwise(dataclasses.replace(call, target="aten::where.self"), mask, value, x)


# --- The same operator, of dimensions one further back


class _Dim:
    def __init__(self, default=None):
        self.default = default


def _along(name, *parameters, first=1, namespace="aten"):
    """`parameters` are those after the tensors, with their defaults; a _Dim is a dimension, or several."""

    def run(call, *args, **kwargs):
        given = list(args[:first])
        for i, parameter in enumerate(parameters):
            is_dim = isinstance(parameter, _Dim)
            value = args[first + i] if first + i < len(args) else parameter.default if is_dim else parameter
            given.append(_shifted(value) if is_dim else value)
        given += args[first + len(parameters):]
        if "dim" in kwargs:
            kwargs["dim"] = _shifted(kwargs["dim"])
        if any(_rank(v) == 0 for v in _leaves(args[:1])):
            raise NotImplementedError
        return call(*map_(call.whole, given), **kwargs)

    _rule(name, namespace=namespace)(run)


for _name in ("select.int", "unsqueeze", "squeeze.dim", "squeeze.dims", "softmax.int", "log_softmax.int", "_softmax", "_log_softmax",
              "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "flip", "gather", "scatter.src", "scatter.value", "scatter_add",
              "scatter_reduce.two", "unfold", "max.dim", "min.dim", "any.dim", "all.dim", "any.dims", "all.dims",
              "prod.dim_int"):
    _along(_name, _Dim())
for _name in ("slice.Tensor", "cat", "unbind.int"):
    _along(_name, _Dim(0))
_along("sort", _Dim(-1))
_along("sort.stable")
_along("topk", 1, _Dim(-1))
_along("transpose.int", _Dim(), _Dim())
_along("split.Tensor", 1, _Dim(0))
_along("split_with_sizes", [], _Dim(0))
_along("diagonal", 0, _Dim(0), _Dim(1))
_along("diag_embed", 0, _Dim(-2), _Dim(-1))
for _name in ("run_begins", "resize_linear", "resize_cubic"):
    _along(_name, _Dim(), namespace="atenon")

for _name, _parameters in (("slice", (_Dim(0),)), ("select", (_Dim(),)), ("diagonal", (0, _Dim(0), _Dim(1)))):
    _along(f"{_name}_scatter", *_parameters, first=2)

# What looks at the last dimensions only. (An example has them all.)
for _name in ("constant_pad_nd", "triu", "tril", "pixel_shuffle", "pixel_unshuffle", "detach", "alias", "glu", "view_as_real",
              "view_as_complex"):
    _along(_name)
for _name in ("_linalg_eigh", "linalg_eig", "_linalg_svd", "linalg_lu_factor_ex"):
    _along(_name)


@_rule("lower_cholesky", "qr_factors", "triangular_solution_of_stacks", namespace="atenon")
def _(call, *args, **kwargs):
    return call(*map_(call.whole, args), **kwargs)


@_rule("repeat_interleave.self_int")
def _(call, x, repeats, dim=None, output_size=None):
    if dim is None or x.rank == 0:
        return call(x.tensor.reshape(call.size, -1), repeats, 1)
    return call(x.tensor, repeats, _shifted(dim))


@_rule("roll")
def _(call, x, shifts, dims=()):
    if dims:
        return call(x.tensor, shifts, _shifted(dims))
    return call(x.tensor.reshape(call.size, -1), shifts, [1]).reshape(x.tensor.shape)


@_rule("unsqueeze")
def _(call, x, dim):
    return x.tensor.unsqueeze(_shifted(dim))


@_rule("permute")
def _(call, x, dims):
    return x.tensor.permute(0, *(1 + d % x.rank for d in dims))


@_rule("view", "reshape", "_unsafe_view")
def _(call, x, sizes):
    return x.tensor.reshape(call.size, *sizes)


@_rule("as_strided")
def _(call, x, sizes, strides, offset=None):
    """An example of which it was recorded lies in rows, whatever the batch does."""
    if offset:
        raise NotImplementedError
    rows = x.tensor.contiguous()
    return call(rows, [call.size, *sizes], [math.prod(rows.shape[1:]), *strides])


@_rule("expand")
def _(call, x, sizes, implicit=False):
    return _padded(x, len(sizes)).expand(call.size, *sizes)


@_rule("repeat")
def _(call, x, repeats):
    return _padded(x, len(repeats)).repeat(1, *repeats)


# --- Reductions


def _reduction(name, *defaults):
    """Over some dimensions, or over all of an example."""

    @_rule(name)
    def run(call, x, dims=None, *args, **kwargs):
        if dims is None or dims == []:
            dims = list(range(x.rank))
        if x.rank == 0:
            return call(x.tensor.unsqueeze(1), [1], False, **kwargs)
        return call(x.tensor, _shifted(dims), *args, **kwargs)


for _name in ("sum.dim_IntList", "mean.dim", "amax", "amin", "nansum", "count_nonzero.dim_IntList"):
    _reduction(_name)


@_rule("linalg_vector_norm")
def _(call, x, order=2, dims=None, *args, **kwargs):
    if x.rank == 0:
        raise NotImplementedError
    return call(x.tensor, order, list(range(1, x.rank + 1)) if dims is None else _shifted(dims), *args, **kwargs)


@_rule("any", "all", "prod")
def _(call, x, **kwargs):
    flat = x.tensor.reshape(call.size, -1)
    return getattr(flat, call.target.removeprefix("aten::"))(1, **kwargs)


@_rule("argmax", "argmin")
def _(call, x, dim=None, keepdim=False):
    if dim is None and keepdim or x.rank == 0:
        raise NotImplementedError
    return call(x.tensor.reshape(call.size, -1), 1) if dim is None else call(x.tensor, _shifted(dim), keepdim)


# --- Products


@_rule("mm", "bmm", "matmul", "mv", "dot")
def _product(call, a, b):
    """Vectors become matrices; stacks broadcast from the right."""
    row, column = _rank(a) == 1, _rank(b) == 1
    rank = max(_rank(a), _rank(b), 2)
    a, b = _padded(a, _rank(a) if row else rank), _padded(b, _rank(b) if column else rank)
    result = (a.unsqueeze(-2) if row else a).matmul(b.unsqueeze(-1) if column else b)
    if row and rank > 2 or column and rank > 2:
        raise NotImplementedError
    result = result.squeeze(-1) if column else result
    return result.squeeze(-1 if row and column else -2) if row else result


@_rule("linear")
def _(call, x, weight, bias=None):
    if _plain((weight, bias)):
        return call(x.tensor, weight, bias)
    turned = Batched(weight.tensor.mT) if isinstance(weight, Batched) else weight.mT
    result = Batched(_product(call, x, turned))
    return result.tensor if bias is None else elementwise(dataclasses.replace(call, target="aten::add.Tensor"), result, bias)


@_rule("einsum")
def _(call, equation, tensors, **kwargs):
    letter = next(c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation)
    left, arrow, right = equation.replace(" ", "").partition("->")
    if not arrow:
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1))
    parts = [letter + part if isinstance(t, Batched) else part for part, t in zip(left.split(","), tensors)]
    return call(f"{','.join(parts)}->{letter}{right}", [t.tensor if isinstance(t, Batched) else t for t in tensors])


@_rule("scaled_dot_product_attention")
def _(call, query, key, value, mask=None, *args, **kwargs):
    rank = max(map_(_rank, (query, key, value)))
    whole = [call.whole(v) for v in (query, key, value)]
    return call(*[_padded(Batched(v), rank) for v in whole], mask if mask is None else _padded(mask, rank), *args, **kwargs)


@_rule("layer_norm")
def _(call, x, shape, weight=None, bias=None, *args):
    if _plain((weight, bias)):
        return call(x.tensor, shape, weight, bias, *args)
    result = Batched(call(call.whole(x), shape, None, None, *args))
    for target, factor in (("aten::mul.Tensor", weight), ("aten::add.Tensor", bias)):
        if factor is not None:
            result = Batched(elementwise(dataclasses.replace(call, target=target), result, factor))
    return result.tensor


# --- Images: the batch is folded into that which they have


def _folded(call, x, args, kwargs):
    results = call(x.tensor.flatten(0, 1), *args, **kwargs)
    sizes = (call.size, x.tensor.shape[1])
    return [r.unflatten(0, sizes) for r in results] if isinstance(results, tuple) else results.unflatten(0, sizes)


for _name, _spatial in (("max_pool2d_with_indices", 2), ("max_pool3d_with_indices", 3), ("avg_pool2d", 2), ("avg_pool3d", 3),
                        ("adaptive_avg_pool2d", 2), ("_adaptive_avg_pool2d", 2), ("adaptive_avg_pool3d", 3), ("_adaptive_avg_pool3d", 3),
                        ("adaptive_max_pool2d", 2), ("upsample_bilinear2d.vec", 2), ("upsample_nearest2d.vec", 2),
                        ("upsample_nearest1d.vec", 1), ("upsample_bicubic2d.vec", 2), ("upsample_nearest3d.vec", 3),
                        ("upsample_trilinear3d.vec", 3), ("im2col", 2), ("col2im", 1),
                        *((f"_upsample_nearest_exact{n}d.vec", n) for n in (1, 2, 3))):
    def _run(call, x, *args, spatial=_spatial, **kwargs):
        if x.rank == spatial + 1:
            return call(x.tensor, *args, **kwargs)
        return _folded(call, x, args, kwargs)

    _rule(_name)(_run)


_rule("channel_shuffle")(lambda call, x, groups: _folded(call, x, (groups,), {}))


@_rule("affine_grid_generator")
def _(call, x, sizes, align_corners):
    return _folded(call, x, ([call.size * sizes[0], *sizes[1:]], align_corners), {})


@_rule("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _(call, x, grid, *args):
    return _folded(call, Batched(call.whole(x)), (call.whole(grid).flatten(0, 1), *args), {})


@_rule("convolution")
def _(call, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rest = (stride, padding, dilation, transposed, output_padding)
    if _plain((weight, bias)):
        return _folded(call, x, (weight, bias, *rest, groups), {})
    if type(call.size) is not int:
        raise NotImplementedError  # as many groups as there are examples
    x, weight, bias = call.whole(x), call.whole(weight), call.whole(bias)
    result = call(x.movedim(0, 1).flatten(1, 2), weight.flatten(0, 1), None if bias is None else bias.flatten(), *rest, call.size * groups)
    return result.unflatten(1, (call.size, -1)).movedim(1, 0)


# --- Indices


def _numbers(call, rank):
    """The number of each example, to be broadcast with indices of that rank."""
    from torch import arange

    return arange(call.size).reshape(call.size, *[1] * rank)


@_rule("index.Tensor")
def _(call, x, indices):
    given = [i for i, index in enumerate(indices) if index is not None]
    if any(_dtype(index) == _atenon.dtypes["bool"] for index in _leaves(indices)):
        raise NotImplementedError
    rank = max(_rank(indices[i]) for i in given)
    adjacent = given == list(range(given[0], given[-1] + 1))
    place = given[0] if adjacent else 0  # of the indices' dimensions in the result of one example
    padded = [_padded(index, rank) for index in indices]
    if not isinstance(x, Batched):
        return call(x, padded).movedim(place, 0)
    result = call(x.tensor, [_numbers(call, rank), *padded])
    in_front = not adjacent or place > 0  # behind the batch, where one example has them at `place`
    if in_front and place > 0:
        return result.movedim(list(range(1, 1 + rank)), list(range(1 + place, 1 + place + rank)))
    return result


@_rule("index_put")
def _(call, x, indices, values, accumulate=False):
    given = [i for i, index in enumerate(indices) if index is not None]
    if any(_dtype(index) == _atenon.dtypes["bool"] for index in _leaves(indices)) or given != list(range(len(given))):
        raise NotImplementedError
    rank = max(_rank(indices[i]) for i in given)
    padded = [_padded(index, rank) for index in indices]
    return call(call.whole(x), [_numbers(call, rank), *padded], _padded(values, rank + _rank(x) - len(given)), accumulate)


@_rule("index_add", "index_copy", "index_fill.int_Scalar")
def _(call, x, dim, index, *args, **kwargs):
    if isinstance(index, Batched) or _rank(x) == 0:
        raise NotImplementedError
    return call(call.whole(x), _shifted(dim), index, *map_(call.whole, args), **kwargs)


@_rule("bucketize.Tensor")
def _(call, x, boundaries, **kwargs):
    if isinstance(boundaries, Batched):
        raise NotImplementedError
    return call(x.tensor, boundaries, **kwargs)


@_rule("searchsorted.Tensor")
def _(call, boundaries, x, **kwargs):
    if _rank(boundaries) != _rank(x) or any(value is not None for value in kwargs.values() if not isinstance(value, bool)):
        raise NotImplementedError
    return call(call.whole(boundaries), call.whole(x), **kwargs)


@_rule("index_select")
def _(call, x, dim, index):
    rank = _rank(x)
    if rank == 0 or _rank(index) != 1:
        raise NotImplementedError
    if _plain((index,)):
        return call(x.tensor, _shifted(dim), index)
    dim = dim % rank
    moved = call.whole(x).movedim(dim + 1, 1)
    return moved[_numbers(call, 1), index.tensor].movedim(1, dim + 1)


@_rule("embedding")
def _(call, weight, indices, *args, **kwargs):
    if isinstance(weight, Batched):
        raise NotImplementedError
    return call(weight, indices.tensor, *args, **kwargs)


# --- Random numbers

_no_random = ("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
              "flags on vmap or perform the randomness operation out of vmap")


def _random(call, randomness, args, kwargs):
    if randomness == "error":
        raise RuntimeError(_no_random)
    batched = any(isinstance(v, Batched) for v in _leaves((*args, *kwargs.values())))
    if randomness == "same":
        if not batched:
            return call(*args, **kwargs), False
        if call.target.split(".")[0].endswith("_like"):
            return call(args[0].tensor.select(0, 0), *args[1:], **kwargs), False
        raise Unbatchable
    if batched:
        return call(*map_(call.whole, args), **kwargs), True
    if args and isinstance(args[0], Tensor):
        return call(*map_(call.whole, args), **kwargs), True
    sizes = next((i for i, arg in enumerate(args) if isinstance(arg, (list, tuple))), None)
    if sizes is None:
        raise Unbatchable
    return call(*args[:sizes], [call.size, *args[sizes]], *args[sizes + 1:], **kwargs), True


# --- A function


def _looped(call, args, kwargs):
    """A node without a rule, once for each example."""
    tensors = [v.tensor for v in _leaves((*args, *kwargs.values())) if isinstance(v, Batched)]

    def filled(value, parts):
        if isinstance(value, (list, tuple)):
            return [filled(v, parts) for v in value]
        return next(parts) if isinstance(value, Batched) else value

    def one(given):
        parts = iter(given)
        positional = [filled(value, parts) for value in args]
        return call(*positional, **{name: filled(value, parts) for name, value in kwargs.items()})

    return loop(one, tensors)


def _flat(results):
    return [r for result in results for r in _flat(result)] if isinstance(results, (list, tuple)) else [results]


def run(number, tensors, randomness):
    """The outputs of a recorded function for a whole batch, and whether each has it. None where it takes a loop."""
    own, values, nodes, outputs = _atenon.describe_subgraph(number, frozenset(rules))
    values = dict(values)
    values.update((name, Batched(tensor)) for name, tensor in zip(own, tensors))

    def value_of(argument):
        if isinstance(argument, tuple):
            return values[argument[0]]
        return [value_of(item) for item in argument] if isinstance(argument, list) else argument

    def record(target, is_elementwise, is_random, results, arguments, keywords):
        args, kwargs = map_(value_of, arguments), {name: value_of(value) for name, value in keywords.items()}
        call = _Call(target, tensors[0].shape[0])
        has_batch = not _plain((*args, *kwargs.values()))
        if is_random:
            given, has_batch = _random(call, randomness, args, kwargs)
        elif not has_batch:
            given = call(*args, **kwargs)
        elif target.startswith("higher_order::") or any(rank is None for _, rank, _ in results):
            raise Unbatchable
        else:
            rule = rules.get(target) or (elementwise if is_elementwise else None)
            try:
                given = rule(call, *args, **kwargs) if rule else _looped(call, args, kwargs)
            except NotImplementedError:
                given = _looped(call, args, kwargs)
        for (name, rank, dtype), result in zip(results, _flat(given)):
            if has_batch:
                if result.dim() != rank + 1:
                    raise Unbatchable
                result = Batched(result.to(_atenon.dtypes[dtype]))
            values[name] = result

    try:
        for *node, provenance in nodes:
            if node[0].startswith("higher_order::") and _plain(map_(value_of, node[4])):
                raise Unbatchable  # its functions are recorded for the node that is there
            _atenon.record_at(provenance, lambda: record(*node))
    except Unbatchable:
        return None
    return [value_of(output) for output in outputs]
