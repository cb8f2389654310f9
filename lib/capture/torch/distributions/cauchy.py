import math

import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class Cauchy(Distribution):
    has_rsample = True
    arg_constraints, support = {"loc": constraints.real, "scale": constraints.positive}, constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = property(lambda self: torch.full_like(self.loc, math.nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: torch.full_like(self.loc, math.inf))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Cauchy(self.loc.expand(batch_shape), self.scale.expand(batch_shape)), _instance)

    def rsample(self, sample_shape=()):
        return self.loc + torch.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype).cauchy_() * self.scale

    def log_prob(self, value):
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).square().log1p()

    def cdf(self, value):
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()
