import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution


class Dirichlet(Distribution):
    arg_constraints, support = {"concentration": constraints.independent(constraints.positive, 1)}, constraints.simplex

    def __init__(self, concentration, validate_args=None):
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Dirichlet(self.concentration.expand([*batch_shape, *self._event_shape])), _instance)

    def log_prob(self, value):
        return (torch.xlogy(self.concentration - 1.0, value).sum(-1) + torch.lgamma(self.concentration.sum(-1))
                - torch.lgamma(self.concentration).sum(-1))

    def entropy(self):
        total = self.concentration.sum(-1)
        return (torch.lgamma(self.concentration).sum(-1) - torch.lgamma(total)
                - (self.concentration.size(-1) - total) * torch.digamma(total)
                - ((self.concentration - 1.0) * torch.digamma(self.concentration)).sum(-1))
