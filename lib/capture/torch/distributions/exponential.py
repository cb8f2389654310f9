import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class Exponential(Distribution):
    arg_constraints, support = {"rate": constraints.positive}, constraints.nonnegative
    has_rsample = True

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = stddev = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: torch.zeros_like(self.rate))
    variance = property(lambda self: self.rate.pow(-2))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Exponential(self.rate.expand(batch_shape)), _instance)

    def rsample(self, sample_shape=()):
        return torch.empty(self._extended_shape(sample_shape), dtype=self.rate.dtype).exponential_() / self.rate

    def log_prob(self, value):
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        return 1 - torch.exp(-self.rate * value)

    def icdf(self, value):
        return -torch.log1p(-value) / self.rate

    def entropy(self):
        return 1 - torch.log(self.rate)
