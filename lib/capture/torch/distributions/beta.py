import torch
from torch.distributions import constraints
from torch.distributions.dirichlet import Dirichlet
from torch.distributions.distribution import Distribution, broadcast_all


class Beta(Distribution):
    arg_constraints, support = {"concentration1": constraints.positive, "concentration0": constraints.positive}, constraints.unit_interval

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(torch.stack([self.concentration1, self.concentration0], -1))
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    variance = property(lambda self: self._dirichlet.variance[..., 0])

    def expand(self, batch_shape, _instance=None):
        return self._filled(Beta(self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)), _instance)

    def log_prob(self, value):
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()
