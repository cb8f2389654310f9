import torch
from torch.distributions import constraints
from torch.distributions.distribution import broadcast_all
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.transforms import AffineTransform, PowerTransform
from torch.distributions.uniform import Uniform
from torch.distributions.utils import euler_constant


class Kumaraswamy(TransformedDistribution):
    arg_constraints, support = {"concentration1": constraints.positive, "concentration0": constraints.positive}, constraints.unit_interval

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(torch.zeros_like(self.concentration0), torch.ones_like(self.concentration0))
        super().__init__(base, [PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0),
                                PowerTransform(exponent=self.concentration1.reciprocal())], validate_args=validate_args)

    def _moment(self, order):
        first, b = 1 + order / self.concentration1, self.concentration0
        return b * torch.exp(torch.lgamma(first) + torch.lgamma(b) - torch.lgamma(first + b))

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - torch.pow(self.mean, 2))

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        return (b.reciprocal() * (-b).log1p() - (-b * a).log1p()).masked_fill((b < 1) | (a < 1), torch.nan).exp()

    def expand(self, batch_shape, _instance=None):
        return self._filled(Kumaraswamy(self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)), _instance)

    def entropy(self):
        away1, away0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = torch.digamma(self.concentration0 + 1) + euler_constant
        return away0 + away1 * harmonic - torch.log(self.concentration1) - torch.log(self.concentration0)
