import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class Poisson(Distribution):
    arg_constraints, support = {"rate": constraints.nonnegative}, constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())

    def expand(self, batch_shape, _instance=None):
        return self._filled(Poisson(self.rate.expand(batch_shape)), _instance)

    def log_prob(self, value):
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()
