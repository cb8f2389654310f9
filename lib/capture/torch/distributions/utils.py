# What distributions of libraries take from PyTorch's own.
import torch
from torch.distributions.distribution import broadcast_all, inside as clamp_probs, lazy_property

euler_constant = 0.57721566490153286060

__all__ = ["broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec",
           "vec_to_tril_matrix"]


def logits_to_probs(logits, is_binary=False):
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, dim=-1)


def probs_to_logits(probs, is_binary=False):
    logarithm = clamp_probs(probs).log()
    return logarithm - torch.log1p(-clamp_probs(probs)) if is_binary else logarithm


def _sum_rightmost(value, dim):
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1) if dim else value


def _standard_normal(shape, dtype, device):
    return torch.randn(shape, dtype=dtype, device=device)


def tril_matrix_to_vec(mat, diag=0):
    """The numbers of the lower triangle, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = torch.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec, diag=0):
    count = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > torch.finfo(vec.dtype).eps:
        raise ValueError(f"The size of last dimension is {count} which cannot be expressed as "
                         "the lower triangular part of a square D x D matrix.")
    n = round(n)
    rows, columns = torch.tril_indices(n, n, diag)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., rows, columns] = vec
    return mat
