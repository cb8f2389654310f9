import math

import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution
from torch.distributions.kl import register_kl


class MultivariateNormal(Distribution):
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = [matrix for matrix in (covariance_matrix, precision_matrix, scale_tril) if matrix is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        batch = torch.broadcast_shapes(given[0].shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch, loc.shape[-1])
        matrix = given[0].expand(*batch, *given[0].shape[-2:])
        if covariance_matrix is not None:
            matrix = torch.linalg.cholesky(matrix)
        elif precision_matrix is not None:
            inverse = torch.linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
            matrix = torch.linalg.solve_triangular(inverse, torch.eye(loc.shape[-1], dtype=loc.dtype), upper=False)
        self.scale_tril = matrix
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self.scale_tril.pow(2).sum(-1))
    covariance_matrix = property(lambda self: self.scale_tril @ self.scale_tril.mT)
    precision_matrix = property(lambda self: torch.cholesky_inverse(self.scale_tril))
    _half_log_determinant = property(lambda self: self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1))

    def expand(self, batch_shape, _instance=None):
        return self._filled(MultivariateNormal(self.loc.expand(*batch_shape, *self.event_shape), scale_tril=self.scale_tril), _instance)

    def rsample(self, sample_shape=()):
        drawn = torch.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def _squared_distance(self, value):
        apart = (value - self.loc).unsqueeze(-1)
        return torch.linalg.solve_triangular(self.scale_tril, apart, upper=False).squeeze(-1).pow(2).sum(-1)

    def log_prob(self, value):
        return -0.5 * (self.loc.shape[-1] * math.log(2 * math.pi) + self._squared_distance(value)) - self._half_log_determinant

    def entropy(self):
        return 0.5 * self.loc.shape[-1] * (1.0 + math.log(2 * math.pi)) + self._half_log_determinant


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl(p, q):
    spread = torch.linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False).pow(2).sum((-2, -1))
    return q._half_log_determinant - p._half_log_determinant + 0.5 * (spread + q._squared_distance(p.loc) - p.loc.shape[-1])
