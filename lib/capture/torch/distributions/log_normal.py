import torch
from torch.distributions import constraints
from torch.distributions.normal import Normal
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.transforms import ExpTransform


class LogNormal(TransformedDistribution):
    arg_constraints, support = {"loc": constraints.real, "scale": constraints.positive}, constraints.positive

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale), ExpTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())
    variance = property(lambda self: self.scale.pow(2).expm1() * (2 * self.loc + self.scale.pow(2)).exp())

    def expand(self, batch_shape, _instance=None):
        return self._filled(LogNormal(self.loc.expand(batch_shape), self.scale.expand(batch_shape)), _instance)

    def entropy(self):
        return self.base_dist.entropy() + self.loc
