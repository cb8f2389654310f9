import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class GeneralizedPareto(Distribution):
    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.loc, torch.where(self.concentration < 0, self.loc - self.scale / self.concentration, torch.inf))

    def _shape(self):
        """Where the concentration is zero, and one that can be divided by."""
        is_zero = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return is_zero, torch.where(is_zero, 1.0, self.concentration)

    @property
    def mean(self):
        valid = self.concentration < 1
        return torch.where(valid, self.loc + self.scale / (1 - torch.where(valid, self.concentration, 0.5)), torch.nan)

    @property
    def variance(self):
        valid = self.concentration < 0.5
        safe = torch.where(valid, self.concentration, 0.25)
        return torch.where(valid, self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe)), torch.nan)

    mode = property(lambda self: self.loc)

    def expand(self, batch_shape, _instance=None):
        return self._filled(GeneralizedPareto(self.loc.expand(batch_shape), self.scale.expand(batch_shape),
                                              self.concentration.expand(batch_shape)), _instance)

    def rsample(self, sample_shape=()):
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def log_prob(self, value):
        away = (value - self.loc) / self.scale
        is_zero, safe = self._shape()
        power = 1 / safe + torch.ones_like(away)
        return -self.scale.log() - torch.where(is_zero, away, torch.where(power == 0, power, power * torch.log1p(safe * away)))

    def log_survival_function(self, value):
        away = (value - self.loc) / self.scale
        is_zero, safe = self._shape()
        return torch.where(is_zero, -away, -torch.log1p(safe * away) / safe)

    def log_cdf(self, value):
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return torch.exp(self.log_cdf(value))

    def icdf(self, value):
        is_zero, safe = self._shape()
        left = torch.log1p(-value)
        return torch.where(is_zero, self.loc - self.scale * left, self.loc + self.scale / safe * torch.expm1(-safe * left))

    def entropy(self):
        return torch.log(self.scale) + self.concentration + 1
