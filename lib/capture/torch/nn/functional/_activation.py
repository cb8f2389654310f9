# Activations, dropout and softmax.
import torch
from torch._operators import aten

__all__ = [
    "alpha_dropout", "celu", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "feature_alpha_dropout", "glu",
    "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_softmax", "mish", "relu", "relu6", "rrelu", "selu",
    "sigmoid", "silu", "softmax", "softmin", "softsign", "tanh", "tanhshrink", "threshold",
]


def relu(input, inplace=False):
    return aten.relu_(input) if inplace else aten.relu(input)


def relu6(input, inplace=False):
    return aten.relu6_(input) if inplace else aten.relu6(input)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (aten.hardtanh_ if inplace else aten.hardtanh)(input, min_val, max_val)


def elu(input, alpha=1.0, inplace=False):
    return (aten.elu_ if inplace else aten.elu)(input, alpha)


def selu(input, inplace=False):
    return aten.selu_(input) if inplace else aten.selu(input)


def celu(input, alpha=1.0, inplace=False):
    return (aten.celu_ if inplace else aten.celu)(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    return (aten.leaky_relu_ if inplace else aten.leaky_relu)(input, negative_slope)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    return (aten.rrelu_ if inplace else aten.rrelu)(input, lower, upper, training)


def threshold(input, threshold, value, inplace=False):
    return (aten.threshold_ if inplace else aten.threshold)(input, threshold, value)


def silu(input, inplace=False):
    return aten.silu_(input) if inplace else aten.silu(input)


def mish(input, inplace=False):
    return aten.mish_(input) if inplace else aten.mish(input)


def hardswish(input, inplace=False):
    return aten.hardswish_(input) if inplace else aten.hardswish(input)


def hardsigmoid(input, inplace=False):
    return aten.hardsigmoid_(input) if inplace else aten.hardsigmoid(input)


def sigmoid(input):
    return input.sigmoid()


def tanh(input):
    return input.tanh()


def tanhshrink(input):
    return input - input.tanh()


def softsign(input):
    return input / (input.abs() + 1)


def glu(input, dim=-1):
    return aten.glu(input, dim)


# --- Softmax. Without `dim`, PyTorch chooses 0 for tensors of 0, 1 and 3 dimensions, else 1.


def _chosen_dim(input, dim):
    if dim is not None:
        return dim
    return 0 if input.dim() in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    return aten.softmax(input, _chosen_dim(input, dim), dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return aten.softmax(-input, _chosen_dim(input, dim), dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    return aten.log_softmax(input, _chosen_dim(input, dim), dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    gumbels = -torch.empty_like(logits, memory_format=torch.contiguous_format).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return torch.zeros_like(logits).scatter_(dim, index, 1.0) - soft.detach() + soft


# --- Dropout


def _dropout(operator, input, p, training, inplace):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return getattr(aten, operator + "_" if inplace else operator)(input, p, training)


def dropout(input, p=0.5, training=True, inplace=False):
    return _dropout("dropout", input, p, training, inplace)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    return _dropout("alpha_dropout", input, p, training, inplace)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    return _dropout("feature_alpha_dropout", input, p, training, inplace)


def dropout1d(input, p=0.5, training=True, inplace=False):
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input.")
    if input.dim() == 3:
        return _dropout("feature_dropout", input, p, training, inplace)
    return _dropout("feature_dropout", input.unsqueeze(0), p, training, inplace).squeeze(0)


def dropout2d(input, p=0.5, training=True, inplace=False):
    return _dropout("feature_dropout", input, p, training, inplace)


def dropout3d(input, p=0.5, training=True, inplace=False):
    return _dropout("feature_dropout", input, p, training, inplace)
