"""PyTorch's cond, while_loop, map, scan and associative_scan as plain Python, outside of an export.

Called eagerly, PyTorch compiles them first, which takes seconds and refuses what an export takes. install() is called before
the model's file is imported.
"""
import torch
import torch._higher_order_ops as loops
from torch.utils import _pytree as pytree


def _stack(rounds, dim=0):
    leaves, specs = zip(*(pytree.tree_flatten(r) for r in rounds))
    return pytree.tree_unflatten([torch.stack(parts, dim) for parts in zip(*leaves)], specs[0])


def _rounds(xs, dim=0):
    leaves, spec = pytree.tree_flatten(xs)
    return [pytree.tree_unflatten(list(parts), spec) for parts in zip(*(leaf.unbind(dim) for leaf in leaves))]


def cond(condition, then, other, operands=()):
    return (then if condition else other)(*operands)


def while_loop(condition, body, carried, additional=()):
    while condition(*carried, *additional):
        carried = body(*carried, *additional)
    return carried


def map(f, xs, *arguments):
    return _stack([f(x, *arguments) for x in _rounds(xs)])


def scan(step, carry, xs, *, dim=0, reverse=False):
    results = []
    rounds = _rounds(xs, dim)
    for x in reversed(rounds) if reverse else rounds:
        carry, y = step(carry, x)
        results.append(y)
    return carry, _stack(results[::-1] if reverse else results)


def associative_scan(join, xs, dim, reverse=False, combine_mode="pointwise"):
    results = []
    rounds = _rounds(xs, dim)
    for x in reversed(rounds) if reverse else rounds:
        results.append(join(results[-1], x) if results else x)
    return _stack(results[::-1] if reverse else results, dim)


def install():
    for function in (cond, while_loop, map, scan, associative_scan):
        name = function.__name__
        original = getattr(loops, name)

        def either(*args, _original=original, _eager=function, **kwargs):
            return (_original if torch.compiler.is_compiling() else _eager)(*args, **kwargs)

        setattr(loops, name, either)
        if hasattr(torch, name):
            setattr(torch, name, either)
