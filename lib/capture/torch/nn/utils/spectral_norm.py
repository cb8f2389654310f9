# Spectral normalisation by a hook before each call: weight / its largest singular value, which power iteration estimates in training.
import torch
from torch.nn import functional as F

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


def matrix_of(weight, dim):
    """The weight with `dim` as rows and all else as columns."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.flatten(1)


def normalized_dim(module, dim):
    """Output channels, which transposed convolutions have second."""
    if dim is not None:
        return dim
    return 1 if type(module).__name__ in ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d") else 0


class SpectralNorm:
    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but "
                             f"got n_power_iterations={n_power_iterations}")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module, do_power_iteration):
        weight, u, v = (getattr(module, self.name + suffix) for suffix in ("_orig", "_u", "_v"))
        matrix = matrix_of(weight, self.dim)
        if do_power_iteration:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(torch.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(torch.mv(matrix, v), dim=0, eps=self.eps))
        return weight / torch.dot(u, torch.mv(matrix, v))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, normalized_dim(module, dim), eps)
    weight = getattr(module, name)
    rows, columns = matrix_of(weight, hook.dim).size()
    u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
    v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.data)  # until the first call; who initialises it sets the parameter, whose memory it shares
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module, name="weight"):
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            weight = hook.compute_weight(module, False)
            delattr(module, name)
            del module._buffers[name + "_u"], module._buffers[name + "_v"], module._parameters[name + "_orig"]
            module.register_parameter(name, torch.nn.Parameter(weight.detach()))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
