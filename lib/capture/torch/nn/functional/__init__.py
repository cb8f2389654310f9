# torch.nn.functional: each function emits the operator that torch.export shows for it.
#
# Functions that are one operator under PyTorch's signature are made by __getattr__ when first asked for; the others are
# in the private modules, by kind.
import contextlib
import sys

import _atenon

from torch import _operators, _placeholder, overrides
from torch.nn.functional._activation import *
from torch.nn.functional._attention import *
from torch.nn.functional._attention import _canonical_mask, _in_projection, _in_projection_packed, _none_or_dtype
from torch.nn.functional._loss import *
from torch.nn.functional._normalization import *
from torch.nn.functional._pooling import *
from torch.nn.functional._vision import *
from torch.overrides import handle_torch_function, has_torch_function, has_torch_function_unary, has_torch_function_variadic

_operator_names = frozenset((
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "elu_", "hardshrink", "hardtanh_",
    "leaky_relu_", "linear", "native_channel_shuffle", "pairwise_distance", "pdist", "pixel_shuffle",
    "pixel_unshuffle", "prelu", "relu_", "rrelu_", "selu_", "softplus", "softshrink", "adaptive_avg_pool1d", "threshold_",
    "gelu"))


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    return _operators.aten._grouped_mm(mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)


def one_hot(tensor, num_classes=-1):
    if num_classes == -1:
        with contextlib.suppress(_atenon.CaptureError):  # of classes that depend on the model's inputs
            num_classes = int(tensor.max()) + 1
    return _operators.aten.one_hot(tensor, num_classes)


overrides.make_overridable(sys.modules[__name__])


def __getattr__(name):
    operator = "log_sigmoid" if name == "logsigmoid" else name
    if (name in _operator_names or name == "logsigmoid") and _operators.exists(operator):
        found = globals()[name] = getattr(_operators.aten, operator)
        return found
    return _placeholder.attribute(__name__, name)
