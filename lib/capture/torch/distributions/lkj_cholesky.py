import math

import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices m, as often as det(m)**(concentration - 1) says."""

    arg_constraints, support = {"concentration": constraints.positive}, constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._filled(LKJCholesky(self.dim, self.concentration.expand(batch_shape)), _instance)

    def log_prob(self, value):
        orders = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - torch.arange(2, self.dim + 1)
        total = (orders * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        rows = self.dim - 1
        alpha = self.concentration + 0.5 * rows
        return total - (0.5 * rows * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, rows) - torch.lgamma(alpha) * rows)
