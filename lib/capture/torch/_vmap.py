# torch.vmap: a function of one example over a dimension of batches.
#
# The function is followed once, on one example, and becomes the body of a loop over the batch (higher_order::map). So every
# function works that works by itself, and none needs rules of its own for each operator.
import functools

from torch._higher_order_ops import map
from torch._tensor import Tensor
from torch.utils import _pytree


def _dimensions(dims, spec, what):
    flat = _pytree._broadcast_to_and_flatten(dims, spec)
    if flat is None:
        raise ValueError(f"vmap: {what} does not have the structure of what it is for: {dims} for {spec}")
    return flat


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    @functools.wraps(func, updated=())
    def batched(*args, **kwargs):
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        args_spec = _pytree.tree_flatten(args)[1]
        given = tuple(in_dims) if isinstance(in_dims, list) else in_dims
        dims = _dimensions(given, args_spec, "in_dims") + [0] * (len(leaves) - args_spec.num_leaves)
        taken = []  # (place, tensor with the batch first)
        for i, (leaf, dim) in enumerate(zip(leaves, dims)):
            if dim is None:
                continue
            if not isinstance(leaf, Tensor):
                if i < args_spec.num_leaves:
                    raise ValueError(f"vmap: in_dims is {dim} for an argument that is a {type(leaf).__name__}, not a tensor: give None")
                continue
            taken.append((i, leaf.movedim(dim, 0) if dim != 0 else leaf))
        if not taken:
            raise ValueError("vmap: at least one argument has a batch: a tensor whose in_dims is not None")
        sizes = {tensor.shape[0] for _, tensor in taken}
        if len(sizes) > 1 and all(isinstance(size, int) for size in sizes):
            raise ValueError(f"vmap: the batches have different sizes: {sorted(sizes)}")

        def one(parts):
            filled = list(leaves)
            for (i, _), part in zip(taken, parts):
                filled[i] = part
            own_args, own_kwargs = _pytree.tree_unflatten(filled, spec)
            result = func(*own_args, **own_kwargs)
            for leaf in _pytree.tree_leaves(result):
                if not isinstance(leaf, Tensor):
                    raise ValueError(f"vmap: the function must return tensors, not a {type(leaf).__name__}")
            return result

        results, result_spec = _pytree.tree_flatten(map(one, [tensor for _, tensor in taken]))
        places = _dimensions(tuple(out_dims) if isinstance(out_dims, list) else out_dims, result_spec, "out_dims")
        if None in places:
            raise ValueError("vmap: an output has no batch only where out_dims is a number")
        moved = [result.movedim(0, dim) if dim != 0 else result for result, dim in zip(results, places)]
        return _pytree.tree_unflatten(moved, result_spec)

    return batched
