import math

import torch
from torch.distributions import constraints
from torch.distributions.cauchy import Cauchy
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.transforms import AbsTransform


class HalfCauchy(TransformedDistribution):
    arg_constraints, support = {"scale": constraints.positive}, constraints.nonnegative

    def __init__(self, scale, validate_args=None):
        super().__init__(Cauchy(0, scale), AbsTransform(), validate_args=validate_args)

    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: torch.full_like(self.scale, math.inf))
    mode = property(lambda self: torch.zeros_like(self.scale))
    variance = property(lambda self: self.base_dist.variance)

    def expand(self, batch_shape, _instance=None):
        return self._filled(HalfCauchy(self.scale.expand(batch_shape)), _instance)

    def log_prob(self, value):
        value = torch.as_tensor(value, dtype=self.scale.dtype)
        return torch.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -torch.inf)

    def cdf(self, value):
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
