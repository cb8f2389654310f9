import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all, chance
from torch.nn.functional import binary_cross_entropy_with_logits


class Geometric(Distribution):
    arg_constraints, support = {"probs": constraints.unit_interval, "logits": constraints.real}, constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = chance(probs, logits)
        super().__init__(self.probs.shape, validate_args=validate_args)

    mean = property(lambda self: 1 / self.probs - 1)
    mode = property(lambda self: torch.zeros_like(self.probs))
    variance = property(lambda self: (1 / self.probs - 1) / self.probs)

    def expand(self, batch_shape, _instance=None):
        return self._filled(Geometric(logits=self.logits.expand(batch_shape)), _instance,
                            probs=self.probs.expand(batch_shape))

    def sample(self, sample_shape=()):
        drawn = torch.empty(self._extended_shape(sample_shape), dtype=self.probs.dtype).uniform_(torch.finfo(self.probs.dtype).tiny, 1)
        return (drawn.log() / (-self.probs).log1p()).floor().detach()

    def log_prob(self, value):
        value, probs = broadcast_all(value, self.probs)
        return value * (-probs.masked_fill((probs == 1) & (value == 0), 0)).log1p() + self.probs.log()

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
