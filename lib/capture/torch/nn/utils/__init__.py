# torch.nn.utils.
from torch.nn.modules.module import Module
from torch.nn.utils import rnn
from torch.nn.utils.clip_grad import (
    clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm)
from torch.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from torch.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from torch.nn.utils.weight_norm import remove_weight_norm, weight_norm

def skip_init(module_cls, *args, **kwargs):
    """A module whose parameters hold nothing in particular: the generator is as it was."""
    from torch.random import fork_rng

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    with fork_rng():
        return module_cls(*args, **kwargs)
