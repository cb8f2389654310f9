# torch.vmap: a function of one example over a dimension of batches.
#
# While forward is captured, the function is recorded once, on one example, and its nodes are recorded again for the whole batch
# (_batching.py): the graph does not grow with the batch, whose size may be dynamic. What only a loop can do becomes one
# (higher_order::map). Outside of a capture the function is called for each example.
import functools

from torch import _batching, _modes
from torch._higher_order_ops import _Traced, _node, _stack
from torch._tensor import Tensor
from torch.utils import _pytree

import _atenon

_randomness = ("error", "different", "same")


def _dimensions(dims, spec, what):
    flat = _pytree._broadcast_to_and_flatten(tuple(dims) if isinstance(dims, list) else dims, spec)
    if flat is None:
        raise ValueError(f"vmap: {what} does not have the structure of what it is for: {dims} for {spec}")
    return flat


class _Examples:
    """The positional arguments of a call: what has a batch, and the rest."""

    def __init__(self, in_dims, args):
        self.leaves, self.spec = _pytree.tree_flatten(args)
        self.places, self.tensors = [], []  # of the tensors; the tensors, with the batch first
        for i, (leaf, dim) in enumerate(zip(self.leaves, _dimensions(in_dims, self.spec, "in_dims"))):
            if dim is None:
                continue
            if not isinstance(leaf, Tensor):
                raise ValueError(f"vmap: in_dims is {dim} for an argument that is a {type(leaf).__name__}, not a tensor: give None")
            if not isinstance(dim, int) or not -leaf.dim() <= dim < leaf.dim():
                raise ValueError(f"vmap: in_dims is {dim} for a tensor of {leaf.dim()} dimensions")
            self.places.append(i)
            self.tensors.append(leaf.movedim(dim, 0) if dim != 0 else leaf)
        if not self.tensors:
            raise ValueError("vmap: at least one argument has a batch: a tensor whose in_dims is not None")
        sizes = {tensor.shape[0] for tensor in self.tensors}
        if len(sizes) > 1 and all(type(size) is int for size in sizes):
            raise ValueError(f"vmap: the batches have different sizes: {sorted(sizes)}")
        self.size = self.tensors[0].shape[0]

    def filled(self, parts):
        leaves = list(self.leaves)
        for place, part in zip(self.places, parts):
            leaves[place] = part
        return _pytree.tree_unflatten(leaves, self.spec)


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """`chunk_size` bounds PyTorch's memory; the program's is planned, and results are the same."""
    if randomness not in _randomness:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and not (chunk_size == int(chunk_size) and chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, updated=())
    def batched(*args, **kwargs):
        examples = _Examples(in_dims, args)

        def one(*parts):
            with _modes.Transform():
                result = func(*examples.filled(parts), **kwargs)
            for leaf in _pytree.tree_leaves(result):
                if not isinstance(leaf, Tensor):
                    raise ValueError(f"vmap: the function must return tensors, not a {type(leaf).__name__}")
            return result

        results, spec, has_batch = _batched(one, examples, randomness)
        given = []
        for result, dim, varies in zip(results, _dimensions(out_dims, spec, "out_dims"), has_batch):
            if dim is None:
                if varies:
                    raise ValueError("vmap: an output that depends on the batch has one: its out_dims is a number")
                given.append(result)
                continue
            result = result if varies else result.expand(examples.size, *result.shape)
            given.append(result.movedim(0, dim) if dim != 0 else result)
        return _pytree.tree_unflatten(given, spec)

    return batched


def _batched(one, examples, randomness):
    """The results with the batch first, their structure, and which of them have a batch."""
    if not _atenon.is_tracing():
        results, spec = _pytree.tree_flatten(_stack([one(*parts) for parts in zip(*examples.tensors)]))
        return results, spec, [True] * len(results)
    body = _Traced(one, examples.tensors, _pytree.tree_structure(tuple(examples.tensors)), 0)
    outputs = _batching.run(body.number, examples.tensors, randomness)
    if outputs is None:
        results = _node("map", None, (body,), ("map_graph",), (), examples.tensors)
        return results, body.spec, [True] * len(results)
    has_batch = [isinstance(output, _batching.Batched) for output in outputs]
    return [output.tensor if varies else output for output, varies in zip(outputs, has_batch)], body.spec, has_batch
