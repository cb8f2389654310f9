import torch
from torch.distributions import constraints
from torch.distributions.gamma import Gamma
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.transforms import PowerTransform


class InverseGamma(TransformedDistribution):
    arg_constraints, support = {"concentration": constraints.positive, "rate": constraints.positive}, constraints.positive

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)
    mean = property(lambda self: torch.where(self.concentration > 1, self.rate / (self.concentration - 1), torch.inf))
    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def variance(self):
        variance = self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2))
        return torch.where(self.concentration > 2, variance, torch.inf)

    def expand(self, batch_shape, _instance=None):
        return self._filled(InverseGamma(self.concentration.expand(batch_shape), self.rate.expand(batch_shape)), _instance)

    def entropy(self):
        return (self.concentration + self.rate.log() + self.concentration.lgamma()
                - (1 + self.concentration) * self.concentration.digamma())
