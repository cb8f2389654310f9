import math

import torch
from torch.distributions import constraints
from torch.distributions.exp_family import ExponentialFamily
from torch.distributions.multivariate_normal import MultivariateNormal


class Wishart(ExponentialFamily):
    """Sums of df outer products of normal vectors."""

    support = constraints.positive_definite

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = [matrix for matrix in (covariance_matrix, precision_matrix, scale_tril) if matrix is not None]
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if given[0].dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, torch.Tensor) else torch.tensor(df, dtype=given[0].dtype)
        batch, size = torch.broadcast_shapes(given[0].shape[:-2], df.shape), given[0].shape[-1]
        self.df = df.expand(batch)
        normal = MultivariateNormal(torch.zeros(size, dtype=given[0].dtype), covariance_matrix, precision_matrix, scale_tril)
        self.scale_tril = normal.scale_tril.expand(*batch, size, size)
        super().__init__(batch, (size, size), validate_args=validate_args)

    @property
    def arg_constraints(self):
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self.event_shape[-1] - 1)}

    covariance_matrix = property(lambda self: self.scale_tril @ self.scale_tril.mT)
    precision_matrix = property(lambda self: torch.cholesky_inverse(self.scale_tril))
    mean = property(lambda self: self.df[..., None, None] * self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, torch.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self):
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (matrix.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Wishart(self.df.expand(batch_shape), scale_tril=self.scale_tril.expand(*batch_shape, -1, -1)), _instance)

    @property
    def _half_log_determinant(self):
        return self._event_shape[-1] * math.log(2) / 2 + self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        size = self._event_shape[-1]
        trace = torch.cholesky_solve(value, self.scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (-self.df * self._half_log_determinant - torch.mvlgamma(self.df / 2, p=size)
                + (self.df - size - 1) / 2 * torch.linalg.slogdet(value).logabsdet - trace / 2)

    def entropy(self):
        size = self._event_shape[-1]
        digammas = torch.digamma(self.df.unsqueeze(-1) / 2 - torch.arange(size, dtype=self.df.dtype) / 2).sum(-1)
        return ((size + 1) * self._half_log_determinant + torch.mvlgamma(self.df / 2, p=size)
                - (self.df - size - 1) / 2 * digammas + self.df * size / 2)
