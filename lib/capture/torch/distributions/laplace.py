import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class Laplace(Distribution):
    arg_constraints, support = {"loc": constraints.real, "scale": constraints.positive}, constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2**0.5 * self.scale)

    def expand(self, batch_shape, _instance=None):
        return self._filled(Laplace(self.loc.expand(batch_shape), self.scale.expand(batch_shape)), _instance)

    def rsample(self, sample_shape=()):
        eps = torch.finfo(self.loc.dtype).eps
        drawn = torch.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype).uniform_(eps - 1, 1)
        return self.loc - self.scale * drawn.sign() * torch.log1p(-drawn.abs())

    def log_prob(self, value):
        return -torch.log(2 * self.scale) - torch.abs(value - self.loc) / self.scale

    def cdf(self, value):
        apart = value - self.loc
        return 0.5 - 0.5 * apart.sign() * torch.expm1(-apart.abs() / self.scale)

    def icdf(self, value):
        apart = value - 0.5
        return self.loc - self.scale * apart.sign() * torch.log1p(-2 * apart.abs())

    def entropy(self):
        return 1 + torch.log(2 * self.scale)
