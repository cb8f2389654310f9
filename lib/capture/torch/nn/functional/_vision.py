# Padding, resizing, sampling, and windows over images.
import math

import _atenon

from torch._operators import aten
from torch.nn.modules.utils import _pair

__all__ = ["affine_grid", "fold", "grid_sample", "interpolate", "pad", "unfold", "upsample", "upsample_bilinear",
           "upsample_nearest"]


def pad(input, pad, mode="constant", value=None):
    return aten.pad(input, pad, mode, value)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    return aten.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    return aten.col2im(input, _pair(output_size), _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    modes, paddings = {"bilinear": 0, "nearest": 1, "bicubic": 2}, {"zeros": 0, "border": 1, "reflection": 2}
    if mode not in modes:
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
                         f"but got: '{mode}'")
    if padding_mode not in paddings:
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
                         f"but got: '{padding_mode}'")
    return aten.grid_sampler(input, grid, modes[mode], paddings[padding_mode], bool(align_corners))


def affine_grid(theta, size, align_corners=None):
    return aten.affine_grid_generator(theta, list(size), bool(align_corners))


# How a mode is called for inputs of one, two and three spatial dimensions; None where PyTorch has none.
_resizing = {
    "nearest": ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    "nearest-exact": ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    "area": ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
    "linear": ("upsample_linear1d", None, None),
    "bilinear": (None, "upsample_bilinear2d", None),
    "bicubic": (None, "upsample_bicubic2d", None),
    "trilinear": (None, None, "upsample_trilinear3d"),
}


def _per_dimension(value, count, what, input):
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"Input and {what} must have the same number of spatial dimensions, but got input with spatial "
                         f"dimensions of {list(input.shape[2:])} and {what} of {value}.")
    return list(value)


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    by_corners = mode not in ("nearest", "area", "nearest-exact")
    if not by_corners and align_corners is not None:
        raise ValueError("align_corners option can only be set with the interpolating modes: "
                         "linear | bilinear | bicubic | trilinear")
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined" if size is not None
                         else "either size or scale_factor should be defined")
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    dimensions = input.dim() - 2
    names = _resizing.get(mode)
    operator = names[dimensions - 1] if names and 1 <= dimensions <= 3 else None
    if operator is None:
        raise NotImplementedError(f"interpolate: mode {mode} is not supported for {input.dim()}D input")
    if antialias:
        if operator not in ("upsample_bilinear2d", "upsample_bicubic2d"):
            raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input")
        operator = f"_{operator}_aa"

    sizes = scales = None
    if size is not None:
        sizes = _per_dimension(size, dimensions, "output size", input)
    else:
        scales = _per_dimension(scale_factor, dimensions, "scale_factor", input)
        if recompute_scale_factor or mode == "area":
            sizes = [_scaled(input.size(i + 2), scale) for i, scale in enumerate(scales)]
            scales = None
    function = getattr(aten, operator)
    if mode == "area":
        return function(input, sizes)
    if scales is not None:
        scales = [float(scale) for scale in scales]
    return function(input, sizes, bool(align_corners), scales) if by_corners else function(input, sizes, scales)


def _scaled(size, scale):
    if isinstance(size, _atenon.SymInt) and float(scale).is_integer():
        return size * int(scale)  # stays an integer expression
    return math.floor(size * scale)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
