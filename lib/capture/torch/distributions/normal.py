import math

import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class Normal(Distribution):
    arg_constraints, support = {"loc": constraints.real, "scale": constraints.positive}, constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.pow(2))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Normal(self.loc.expand(batch_shape), self.scale.expand(batch_shape)), _instance)

    def rsample(self, sample_shape=()):
        return self.loc + torch.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype) * self.scale

    def log_prob(self, value):
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value):
        return 0.5 * (1 + torch.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value):
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)
