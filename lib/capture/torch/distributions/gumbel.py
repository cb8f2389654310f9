import math

import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all

_EULER = 0.57721566490153286060


class Gumbel(Distribution):
    arg_constraints, support = {"loc": constraints.real, "scale": constraints.positive}, constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = property(lambda self: self.loc + self.scale * _EULER)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: (math.pi / math.sqrt(6)) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Gumbel(self.loc.expand(batch_shape), self.scale.expand(batch_shape)), _instance)

    def rsample(self, sample_shape=()):
        limits = torch.finfo(self.loc.dtype)
        drawn = limits.tiny + torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype) * (1 - limits.eps - limits.tiny)
        return self.loc - self.scale * torch.log(-torch.log(drawn))

    def log_prob(self, value):
        away = (self.loc - value) / self.scale
        return (away - away.exp()) - self.scale.log()

    def entropy(self):
        return self.scale.log() + (1 + _EULER)

    def cdf(self, value):
        return torch.exp(-torch.exp((self.loc - value) / self.scale))

    def icdf(self, value):
        return self.loc - self.scale * torch.log(-torch.log(value))
