import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class Gamma(Distribution):
    arg_constraints, support = {"concentration": constraints.positive, "rate": constraints.positive}, constraints.nonnegative

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Gamma(self.concentration.expand(batch_shape), self.rate.expand(batch_shape)), _instance)

    def log_prob(self, value):
        value = torch.as_tensor(value, dtype=self.rate.dtype)
        return (torch.xlogy(self.concentration, self.rate) + torch.xlogy(self.concentration - 1, value) - self.rate * value
                - torch.lgamma(self.concentration))

    def entropy(self):
        return (self.concentration - torch.log(self.rate) + torch.lgamma(self.concentration)
                + (1.0 - self.concentration) * torch.digamma(self.concentration))

    def cdf(self, value):
        return torch.special.gammainc(self.concentration, self.rate * value)
