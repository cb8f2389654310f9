# Normalisations, embeddings and distances.
from torch._operators import aten

__all__ = ["batch_norm", "embedding", "embedding_bag", "group_norm", "instance_norm", "layer_norm", "local_response_norm",
           "normalize", "rms_norm"]


def _check_several_values(input):
    # Statistics of one value per channel mean nothing; a symbolic batch size is not asked.
    sizes = [input.size(0), *input.shape[2:]]
    if all(type(size) is int and size == 1 for size in sizes):
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    if training:
        _check_several_values(input)
        if running_mean is not None and running_var is not None:
            out, _, _, mean, variance = aten._native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var,
                                                                                 True, momentum, eps)
            running_mean.copy_(mean)
            running_var.copy_(variance)
            return out
    return aten.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
                  eps=1e-05):
    if use_input_stats and running_mean is not None and running_var is not None:
        inner = list(range(2, input.dim()))
        running_mean.mul_(1 - momentum).add_(input.mean(inner).mean(0), alpha=momentum)
        running_var.mul_(1 - momentum).add_(input.var(inner).mean(0), alpha=momentum)
    return aten.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    return aten.layer_norm(input, tuple(normalized_shape), weight, bias, eps, True)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    return aten.rms_norm(input, tuple(normalized_shape), weight, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05):
    return aten.group_norm(input, num_groups, weight, bias, eps, True)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    squares = input.mul(input)
    before, after = size // 2, (size - 1) // 2
    if input.dim() == 3:
        sums = aten.avg_pool2d(aten.pad(squares.unsqueeze(1), (0, 0, before, after)), (size, 1), 1).squeeze(1)
    else:
        columns = squares.unsqueeze(1).flatten(4)
        sums = aten.avg_pool3d(aten.pad(columns, (0, 0, 0, 0, before, after)), (size, 1, 1), 1).squeeze(1).view(input.size())
    return input / sums.mul(alpha).add(k).pow(beta)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    return aten.div(input, input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input), out=out)


def _row(padding_idx, weight):
    """A row of an embedding, counted from its end when negative; -1 for none."""
    if padding_idx is None:
        return -1
    rows = weight.size(0)
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


def _shortened(weight, input, max_norm, norm_type):
    """Rows that are looked up and are longer than `max_norm` become that long, in place."""
    norms = aten.linalg_vector_norm(weight, norm_type, [1], True)
    is_read = aten.zeros([weight.size(0), 1]).index_fill(0, input.reshape(-1).long(), 1.0) > 0
    return weight.copy_(aten.where(is_read & (norms > max_norm), weight * (max_norm / (norms + 1e-7)), weight))


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None:
        weight = _shortened(weight.detach(), input, max_norm, norm_type)
    return aten.embedding(weight, input, _row(padding_idx, weight), scale_grad_by_freq, sparse)


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None")
        offsets = aten.arange(0, input.numel(), input.size(1), dtype=input.dtype)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() != 1 or offsets is None:
        raise ValueError("input has to be 2D, or 1D with offsets")
    if max_norm is not None:
        weight = _shortened(weight.detach(), input, max_norm, norm_type)
    modes = {"sum": 0, "mean": 1, "max": 2}
    return aten.embedding_bag(weight, input, offsets, scale_grad_by_freq, modes[mode], sparse, per_sample_weights,
                              include_last_offset, None if padding_idx is None else _row(padding_idx, weight))[0]
