import math

import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class StudentT(Distribution):
    arg_constraints, support = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}, constraints.real

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    mean = property(lambda self: torch.where(self.df <= 1, torch.nan, self.loc))
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        variance = torch.where(self.df > 2, self.scale.pow(2) * self.df / (self.df - 2), torch.inf)
        return torch.where(self.df <= 1, torch.nan, variance)

    def expand(self, batch_shape, _instance=None):
        return self._filled(StudentT(self.df.expand(batch_shape), self.loc.expand(batch_shape), self.scale.expand(batch_shape)), _instance)

    def log_prob(self, value):
        away = (value - self.loc) / self.scale
        total = (self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + torch.lgamma(0.5 * self.df)
                 - torch.lgamma(0.5 * (self.df + 1.0)))
        return -0.5 * (self.df + 1.0) * torch.log1p(away**2.0 / self.df) - total

    def entropy(self):
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        total = torch.lgamma(half) + math.lgamma(0.5) - torch.lgamma(more)
        return self.scale.log() + more * (torch.digamma(more) - torch.digamma(half)) + 0.5 * self.df.log() + total
