# Atenon's `torch`: what a model file needs of PyTorch to be built and traced, in standard Python over the native module `_atenon`.
#
# This file only exports, because PyTorch's own names (any, all, sum, max, min, abs, int, float, bool, range) would shadow
# Python's builtins in any code beside them. Implementations are in private modules; operators (torch.add) are made when
# first asked for, by __getattr__ at the end.
import sys as _sys

import _atenon as _native

from torch.torch_version import __version__
from torch import _dtypes, _names, _operators, _placeholder, _return_types
from torch._size import Size
from torch import _builtins

globals().update(_dtypes.named)
globals().update(_dtypes.layouts)
globals().update(_dtypes.memory_formats)
globals().update(_dtypes.qschemes)
legacy_contiguous_format = contiguous_format

from torch._dtypes import dtype, finfo, iinfo, layout, memory_format, qscheme
from torch._modes import (
    are_deterministic_algorithms_enabled, autocast, enable_grad, get_autocast_cpu_dtype, get_autocast_dtype,
    get_autocast_gpu_dtype, get_default_device, get_default_dtype, get_deterministic_debug_mode, get_float32_matmul_precision,
    get_num_interop_threads, get_num_threads, inference_mode, is_autocast_cache_enabled, is_autocast_cpu_enabled,
    is_autocast_enabled, is_deterministic_algorithms_warn_only_enabled, is_inference_mode_enabled, no_grad, set_default_device,
    set_autocast_dtype, set_autocast_enabled, set_default_dtype, set_default_tensor_type, set_float32_matmul_precision,
    set_flush_denormal, set_grad_enabled,
    set_num_interop_threads, set_num_threads, set_printoptions, use_deterministic_algorithms)
from torch._tensor import Tensor, legacy_types as _legacy_types
from torch._functional import *
from torch._sparse import *

globals().update(_legacy_types)

from _atenon import Generator, SymBool, SymFloat, SymInt, device, is_grad_enabled

default_generator = _native.default_generator

from math import e, inf, nan, pi

newaxis = None
torch = _sys.modules[__name__]  # PyTorch's own file leaves it, too: libraries annotate with torch.torch.Tensor

_placeholder.install()

from torch.nn.parameter import Parameter as _Parameter
from torch.utils import _pytree
from torch._higher_order_ops import cond, while_loop
from torch._vmap import vmap

_native.register(Tensor=Tensor, Parameter=_Parameter, Size=Size, pytree=_pytree)

from torch import __config__, nn, utils, version
from torch._ops import ops
from torch._classes import classes
from torch.serialization import load, save


def __getattr__(name):
    if name in _names.set_of("torch") and _operators.exists(name):
        found = getattr(_operators.aten, name)
        globals()[name] = found
        return found
    return _placeholder.attribute("torch", name)


def __dir__():
    return sorted({*globals(), *_names.of("torch")})
