# The parametrisations that PyTorch ships: weight and spectral normalisation, orthogonal matrices.
import torch
from torch._operators import aten
from torch.nn import functional as F
from torch.nn.modules.module import Module
from torch.nn.utils import parametrize
from torch.nn.utils.spectral_norm import matrix_of, normalized_dim
from torch.nn.utils.weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return aten._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        # Checkpoints of the older hook keep g and v beside the module.
        for old, new in ((f"{prefix}{name}_g", "original0"), (f"{prefix}{name}_v", "original1")):
            if old in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(old)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps = eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = matrix_of(weight, self.dim)
            height, width = matrix.size()
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix, n_power_iterations):
        with torch.no_grad():
            for _ in range(n_power_iterations):
                self._u = F.normalize(torch.mv(matrix, self._v), dim=0, eps=self.eps)
                self._v = F.normalize(torch.mv(matrix.H, self._u), dim=0, eps=self.eps)

    def forward(self, weight):
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        return weight / torch.vdot(self._u.clone(), torch.mv(matrix, self._v.clone()))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    weight = getattr(module, name)
    made = _SpectralNorm(weight, n_power_iterations, normalized_dim(module, dim), eps)
    parametrize.register_parametrization(module, name, made)
    return module


_orthogonal_maps = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(q):
    """Up to the rounding of its type."""
    n, k = q.shape[-2:]
    eye = torch.eye(k, dtype=q.dtype)
    return torch.allclose(q.mH @ q, eye, atol=10.0 * n * torch.finfo(q.dtype).eps)


def _made_orthogonal(a):
    """The Q of A = QR whose R has a positive diagonal."""
    factors, tau = torch.geqrf(a)
    return torch.linalg.householder_product(factors, tau) * factors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, where it is wide) from one without a condition: of a skew-symmetric one by the
    exponential or by Cayley's map, or as a product of reflectors; turned by `base`, which makes the first value the given one."""

    def __init__(self, weight, orthogonal_map, use_trivialization=True):
        super().__init__()
        if weight.is_complex():
            raise NotImplementedError("orthogonal parametrizations of complex matrices are not supported")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x):
        is_wide = x.size(-2) < x.size(-1)
        q = self._tall(x.mT if is_wide else x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if is_wide else q

    def _tall(self, x):
        n, k = x.size(-2), x.size(-1)
        if self.orthogonal_map == "householder":
            reflectors = x.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (reflectors * reflectors).sum(dim=-2))
            return torch.linalg.householder_product(reflectors, tau) * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        x = x.tril()
        if n != k:
            x = torch.cat([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], dim=-1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = torch.matrix_exp(skew)
        else:
            eye = torch.eye(n, dtype=skew.dtype)
            q = torch.linalg.solve(torch.add(eye, skew, alpha=-0.5), torch.add(eye, skew, alpha=0.5))
        return q[..., :k] if n != k else q

    def right_inverse(self, q):
        if q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}.")
        with torch.no_grad():
            return self._parameter_of(q)

    def _parameter_of(self, given):
        is_wide = given.size(-2) < given.size(-1)
        q = given.mT if is_wide else given
        n, k = q.size(-2), q.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley parametrizations "
                                          "when use_trivialization=False.")
            factors, tau = torch.geqrf(q)
            factors.diagonal(dim1=-2, dim2=-1).sign_()
            factors.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
            return factors.mT if is_wide else factors
        if n != k:
            q = _made_orthogonal(torch.cat([q, torch.randn(*(q.size()[:-2] + (n, n - k)), dtype=q.dtype)], dim=-1))
        else:
            q = q.clone() if _is_orthogonal(q) else _made_orthogonal(q)
        self.base = q
        x = torch.zeros_like(given)  # of which every map makes the unit matrix
        x.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return x


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) or weight.is_complex() else "householder"
    if orthogonal_map not in _orthogonal_maps:
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    parametrize.register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)
    return module
