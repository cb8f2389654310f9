import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all, chance
from torch.nn.functional import binary_cross_entropy_with_logits


class Bernoulli(Distribution):
    arg_constraints, support = {"probs": constraints.unit_interval, "logits": constraints.real}, constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = chance(probs, logits)
        super().__init__(self.probs.shape, validate_args=validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    mode = property(lambda self: (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, torch.nan))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Bernoulli(logits=self.logits.expand(batch_shape)), _instance,
                            probs=self.probs.expand(batch_shape))

    def sample(self, sample_shape=()):
        return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape))).detach()

    def log_prob(self, value):
        value, logits = broadcast_all(value, self.logits)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        values = torch.arange(2, dtype=self.probs.dtype).view([2] + [1] * len(self._batch_shape))
        return values.expand([2, *self._batch_shape]) if expand else values
