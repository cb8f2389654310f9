import math

import torch
from torch.distributions import constraints
from torch.distributions.distribution import broadcast_all, inside, lazy_property
from torch.distributions.exp_family import ExponentialFamily
from torch.nn.functional import binary_cross_entropy_with_logits


class ContinuousBernoulli(ExponentialFamily):
    """A density on [0, 1] that is proportional to probs**x * (1 - probs)**(1 - x). Near probs = 0.5 the formulas are 0 / 0: a series."""

    has_rsample = True
    arg_constraints, support = {"probs": constraints.unit_interval, "logits": constraints.real}, constraints.unit_interval

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        (given,) = broadcast_all(logits if probs is None else probs)
        if probs is None:
            self.logits = given
        else:
            self.probs = inside(given)
        self._lims = lims
        super().__init__(given.shape, validate_args=validate_args)

    @lazy_property
    def logits(self):
        safe = inside(self.probs)
        return torch.log(safe) - torch.log1p(-safe)

    @lazy_property
    def probs(self):
        return inside(torch.sigmoid(self.logits))

    param_shape = property(lambda self: self._batch_shape)

    def _is_far(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _far(self):
        return torch.where(self._is_far(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self):
        far = self._far()
        below, above = torch.where(far <= 0.5, far, 0.0), torch.where(far >= 0.5, far, 1.0)
        exact = (torch.log(torch.abs(torch.log1p(-far) - torch.log(far)))
                 - torch.where(far <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0)))
        x = torch.pow(self.probs - 0.5, 2)
        return torch.where(self._is_far(), exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self):
        far, x = self._far(), self.probs - 0.5
        exact = far / (2.0 * far - 1.0) + 1.0 / (torch.log1p(-far) - torch.log(far))
        return torch.where(self._is_far(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * torch.pow(x, 2)) * x)

    @property
    def variance(self):
        far, x = self._far(), torch.pow(self.probs - 0.5, 2)
        exact = far * (far - 1.0) / torch.pow(1.0 - 2.0 * far, 2) + 1.0 / torch.pow(torch.log1p(-far) - torch.log(far), 2)
        return torch.where(self._is_far(), exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def expand(self, batch_shape, _instance=None):
        if "probs" in vars(self):
            expanded = ContinuousBernoulli(probs=self.probs.expand(batch_shape), lims=self._lims)
        else:
            expanded = ContinuousBernoulli(logits=self.logits.expand(batch_shape), lims=self._lims)
        return self._filled(expanded, _instance)

    def rsample(self, sample_shape=()):
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value):
        far = self._far()
        exact = (torch.pow(far, value) * torch.pow(1.0 - far, 1.0 - value) + far - 1.0) / (2.0 * far - 1.0)
        return torch.where(value <= 0.0, 0.0, torch.where(value >= 1.0, 1.0, torch.where(self._is_far(), exact, value)))

    def icdf(self, value):
        far = self._far()
        exact = (torch.log1p(-far + value * (2.0 * far - 1.0)) - torch.log1p(-far)) / (torch.log(far) - torch.log1p(-far))
        return torch.where(self._is_far(), exact, value)

    def entropy(self):
        zero, one = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (zero - one) - self._cont_bern_log_norm() - zero
