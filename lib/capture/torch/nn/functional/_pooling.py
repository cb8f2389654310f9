# Pooling. `return_indices=True` gives the positions of the maxima too, by another operator.
import math

from torch._operators import aten
from torch.nn.modules.utils import _list_with_default, _pair, _single, _triple

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d", "fractional_max_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool1d",
    "max_unpool2d", "max_unpool3d",
]


def _max_pool(rank):
    pool, with_indices = f"max_pool{rank}d", f"max_pool{rank}d_with_indices"

    def indexed(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        stride = kernel_size if stride is None else stride
        return getattr(aten, with_indices)(input, kernel_size, stride, padding, dilation, ceil_mode)

    def function(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if return_indices:
            return indexed(input, kernel_size, stride, padding, dilation, ceil_mode)
        return getattr(aten, pool)(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)

    function.__name__, indexed.__name__ = pool, with_indices
    return function, indexed


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def adaptive_avg_pool2d(input, output_size):
    return aten.adaptive_avg_pool2d(input, _list_with_default(_pair(output_size), input.size()))


def adaptive_avg_pool3d(input, output_size):
    return aten.adaptive_avg_pool3d(input, _list_with_default(_triple(output_size), input.size()))


def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    return aten.adaptive_max_pool1d(input, _single(output_size))


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    return aten.adaptive_max_pool2d(input, _list_with_default(_pair(output_size), input.size()))


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    return aten.adaptive_max_pool3d(input, _list_with_default(_triple(output_size), input.size()))


def adaptive_max_pool1d(input, output_size, return_indices=False):
    results = adaptive_max_pool1d_with_indices(input, output_size)
    return results if return_indices else results[0]


def adaptive_max_pool2d(input, output_size, return_indices=False):
    results = adaptive_max_pool2d_with_indices(input, output_size)
    return results if return_indices else results[0]


def adaptive_max_pool3d(input, output_size, return_indices=False):
    results = adaptive_max_pool3d_with_indices(input, output_size)
    return results if return_indices else results[0]


def _fractional_max_pool(rank, input, kernel_size, output_size, output_ratio, return_indices, samples):
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{rank}d requires specifying either an output_size or an output_ratio")
    sizes = input.shape[-rank:]
    spread = _pair if rank == 2 else _triple
    if output_size is None:
        output_size = [int(size * ratio) for size, ratio in zip(sizes, spread(output_ratio))]
    if samples is None:
        batch = 1 if input.dim() == rank + 1 else input.size(0)
        samples = aten.rand([batch, input.size(-rank - 1), rank], dtype=input.dtype)
    results = getattr(aten, f"fractional_max_pool{rank}d")(input, spread(kernel_size), spread(output_size), samples)
    return results if return_indices else results[0]


def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    return _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    return _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def _root_of_sums(averages, count, norm_type):
    return (averages.sign() * averages.abs().relu()).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    averages = aten.avg_pool1d(input.pow(norm_type), kernel_size, stride or [], 0, ceil_mode)
    return _root_of_sums(averages, math.prod(_single(kernel_size)), norm_type)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    averages = aten.avg_pool2d(input.pow(norm_type), kernel_size, stride or [], 0, ceil_mode)
    return _root_of_sums(averages, math.prod(_pair(kernel_size)), norm_type)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    averages = aten.avg_pool3d(input.pow(norm_type), kernel_size, stride or [], 0, ceil_mode)
    return _root_of_sums(averages, math.prod(_triple(kernel_size)), norm_type)


def _unpooled_size(input, kernel_size, stride, padding, output_size):
    if output_size is not None:
        return list(output_size)[-len(kernel_size):]
    sizes = input.shape[-len(kernel_size):]
    return [(size - 1) * s - 2 * p + k for size, k, s, p in zip(sizes, kernel_size, stride, padding)]


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    kernel_size, padding = _single(kernel_size), _single(padding)
    stride = kernel_size if stride is None else _single(stride)
    sizes = _unpooled_size(input, kernel_size, stride, padding, output_size)
    return aten.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*sizes, 1]).squeeze(-1)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    kernel_size, padding = _pair(kernel_size), _pair(padding)
    stride = kernel_size if stride is None else _pair(stride)
    return aten.max_unpool2d(input, indices, _unpooled_size(input, kernel_size, stride, padding, output_size))


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    kernel_size, padding = _triple(kernel_size), _triple(padding)
    stride = kernel_size if stride is None else _triple(stride)
    sizes = _unpooled_size(input, kernel_size, stride, padding, output_size)
    return aten.max_unpool3d(input, indices, sizes, stride, padding)
