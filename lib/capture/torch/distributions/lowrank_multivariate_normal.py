import math

import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, lazy_property


def _times(matrix, vector):
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


class LowRankMultivariateNormal(Distribution):
    """Its covariance is cov_factor @ cov_factor.mT + diag(cov_diag); only the small matrix of the factor's width is inverted."""

    has_rsample = True
    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != loc.shape[-1:]:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {loc.shape[-1]} x m")
        if cov_diag.shape[-1:] != loc.shape[-1:]:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}")
        batch = torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand(*batch, -1), cov_diag.expand(*batch, -1)
        self.cov_factor = cov_factor.expand(*batch, -1, -1)
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        self._capacitance_tril = torch.linalg.cholesky(scaled @ cov_factor + torch.eye(cov_factor.shape[-1], dtype=loc.dtype))
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        return self.cov_factor.pow(2).sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self):
        return self.cov_factor @ self.cov_factor.mT + torch.diag_embed(self.cov_diag)

    @lazy_property
    def scale_tril(self):
        deviation = self.cov_diag.sqrt().unsqueeze(-1)
        scaled = self.cov_factor / deviation
        return deviation * torch.linalg.cholesky(scaled @ scaled.mT + torch.eye(self.loc.shape[-1], dtype=self.loc.dtype))

    @lazy_property
    def precision_matrix(self):
        solved = torch.linalg.solve_triangular(self._capacitance_tril, self.cov_factor.mT / self.cov_diag.unsqueeze(-2), upper=False)
        return torch.diag_embed(self.cov_diag.reciprocal()) - solved.mT @ solved

    @property
    def _log_determinant(self):
        return 2 * self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def expand(self, batch_shape, _instance=None):
        shape = [*batch_shape, *self._event_shape]
        expanded = LowRankMultivariateNormal(self.loc.expand(shape), self.cov_factor.expand(*shape, -1), self.cov_diag.expand(shape))
        return self._filled(expanded, _instance)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        shared = torch.randn(*shape[:-1], self.cov_factor.shape[-1], dtype=self.loc.dtype)
        own = torch.randn(shape, dtype=self.loc.dtype)
        return self.loc + _times(self.cov_factor, shared) + self.cov_diag.sqrt() * own

    def log_prob(self, value):
        away = value - self.loc
        shared = _times(self.cov_factor.mT / self.cov_diag.unsqueeze(-2), away).unsqueeze(-1)
        explained = torch.linalg.solve_triangular(self._capacitance_tril, shared, upper=False).squeeze(-1).pow(2).sum(-1)
        distance = (away.pow(2) / self.cov_diag).sum(-1) - explained
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_determinant + distance)

    def entropy(self):
        return 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_determinant).expand(self._batch_shape)
