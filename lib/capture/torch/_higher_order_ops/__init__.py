# Conditions and loops over tensors: cond, while_loop, map, scan, associative_scan.
#
# While forward is captured, each function becomes a subgraph of its own and the call one node. Before that, or where the
# condition is Python's own, the functions are simply called. Structures are flattened here; natively there are lists of
# tensors and numbers only.
import sys

import _atenon

from torch._tensor import Tensor
from torch.utils import _pytree

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]

# PyTorch has a module for each, of the function's own name.
for _name in __all__:
    sys.modules[f"{__name__}.{_name}"] = sys.modules[__name__]


def _flatten(tree):
    leaves, spec = _pytree.tree_flatten(tree)
    return list(leaves), spec


class _Traced:
    """A function as a subgraph, and the structure of what it returns. `given` holds when it runs: a truth of sizes, or
    what a loop's condition, by its number, says of the inputs."""

    def __init__(self, function, examples=(), spec=None, whole=None, given=None):
        def run(inputs):
            given = inputs if spec is None else _pytree.tree_unflatten(inputs, spec)
            leaves, self.spec = _flatten(function(*given))
            self.nones = [leaf is None for leaf in leaves]
            return [leaf for leaf in leaves if leaf is not None]

        self.number = _atenon.trace_subgraph(run, list(examples), len(examples) if whole is None else whole, given)

    def unflatten(self, results):
        left = iter(results)
        return _pytree.tree_unflatten([None if none else next(left) for none in self.nones], self.spec)


def _node(kind, condition, bodies, names, carried=(), xs=()):
    return _atenon.control_flow(kind, condition, [body.number for body in bodies], list(names), list(carried), list(xs))


def cond(pred, true_fn, false_fn, operands=()):
    is_open = isinstance(pred, (Tensor, _atenon.SymBool))
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"torch.cond chooses by one truth, not by a tensor of shape {tuple(pred.shape)}")
    if not is_open or not _atenon.is_tracing():
        return true_fn(*operands) if pred else false_fn(*operands)
    is_of_sizes = isinstance(pred, _atenon.SymBool)
    taken = _Traced(lambda: true_fn(*operands), given=pred if is_of_sizes else None)
    other = _Traced(lambda: false_fn(*operands), given=~pred if is_of_sizes else None)
    if taken.spec != other.spec or taken.nones != other.nones:
        raise RuntimeError(f"the branches of torch.cond return different structures: {taken.spec} and {other.spec}")
    return taken.unflatten(_node("cond", pred, (taken, other), ("true_graph", "false_graph")))


def while_loop(cond_fn, body_fn, carried_inputs, additional_inputs=()):
    if not _atenon.is_tracing():
        while cond_fn(*carried_inputs, *additional_inputs):
            carried_inputs = body_fn(*carried_inputs, *additional_inputs)
        return carried_inputs
    leaves, spec = _flatten(tuple(carried_inputs))
    condition = _Traced(lambda *carried: cond_fn(*carried, *additional_inputs), leaves, spec)
    body = _Traced(lambda *carried: tuple(body_fn(*carried, *additional_inputs)), leaves, spec,
                   given=condition.number)
    if body.spec != spec:
        raise RuntimeError(f"the body of torch.while_loop returns another structure than it takes: {body.spec}, not {spec}")
    return body.unflatten(_node("while_loop", None, (condition, body), ("cond_graph", "body_graph"), leaves))


def map(f, xs, *args):
    if not _atenon.is_tracing():
        leaves, spec = _flatten(xs)
        rounds = [f(_pytree.tree_unflatten(list(parts), spec), *args) for parts in zip(*leaves)]
        return _stack(rounds)
    leaves, spec = _flatten((xs,))
    body = _Traced(lambda x: f(x, *args), leaves, spec, 0)
    return body.unflatten(_node("map", None, (body,), ("map_graph",), (), leaves))


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    xs_leaves, xs_spec = _flatten(xs)
    leaves, spec = _flatten(init)
    dim = dim % xs_leaves[0].dim() if xs_leaves else 0
    xs_leaves = [_along_first(x, dim, reverse) for x in xs_leaves]
    if not xs_leaves:
        return init, []
    if not _atenon.is_tracing():
        rounds = []
        for parts in zip(*xs_leaves):
            init, y = combine_fn(init, _pytree.tree_unflatten(list(parts), xs_spec))
            rounds.append(y)
        ys = _stack(rounds)
    else:
        own = len(leaves)

        def body_of(*inputs):
            carry, y = combine_fn(_pytree.tree_unflatten(list(inputs[:own]), spec),
                                  _pytree.tree_unflatten(list(inputs[own:]), xs_spec))
            if _flatten(carry)[1] != spec:
                raise RuntimeError(f"the function of scan returns another carry than it takes: {_flatten(carry)[1]}, not {spec}")
            return carry, y

        body = _Traced(body_of, leaves + xs_leaves, None, own)
        init, ys = body.unflatten(_node("scan", None, (body,), ("combine_graph",), leaves, xs_leaves))
    return init, _pytree.tree_map(lambda y: _from_first(y, dim if dim < y.dim() else 0, reverse), ys)


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    leaves, spec = _flatten(xs)
    leaves = [_along_first(x, dim, reverse) for x in leaves]
    if not _atenon.is_tracing():
        total, rounds = None, []
        for parts in zip(*leaves):
            part = _pytree.tree_unflatten(list(parts), spec)
            total = part if total is None else combine_fn(total, part)
            rounds.append(total)
        joined = _stack(rounds)
    else:
        body = _Traced(combine_fn, leaves + leaves, _flatten((xs, xs))[1], 0)
        joined = body.unflatten(_node("associative_scan", None, (body,), ("combine_graph",), (), leaves))
    return _pytree.tree_map(lambda y: _from_first(y, dim, reverse), joined)


def _run_node(kind, arguments):
    """A node of an exported program: its arguments and results are flat, its functions give lists."""
    if kind == "cond":
        return cond(*arguments)
    if kind == "while_loop":
        condition, body, carried, operands = arguments
        return while_loop(lambda *xs: condition(*xs)[0], lambda *xs: tuple(body(*xs)), tuple(carried), tuple(operands))
    body, *carried, xs, operands = arguments
    if kind == "map":
        return map(lambda x: body(*x, *operands), xs)
    if kind == "associative_scan":
        return associative_scan(lambda a, b: body(*a, *b, *operands), xs, 0)
    own = len(carried[0])

    def combine(carry, x):
        results = body(*carry, *x, *operands)
        return results[:own], results[own:]

    carry, ys = scan(combine, carried[0], xs)
    return [*carry, *ys]


def _along_first(x, dim, reverse):
    x = x.movedim(dim, 0) if dim != 0 else x
    return x.flip([0]) if reverse else x


def _from_first(x, dim, reverse):
    x = x.flip([0]) if reverse else x
    return x.movedim(0, dim) if dim != 0 else x


def _stack(rounds):
    from torch import stack

    leaves, spec = zip(*(_flatten(r) for r in rounds))
    return _pytree.tree_unflatten([stack(parts) for parts in zip(*leaves)], spec[0])
