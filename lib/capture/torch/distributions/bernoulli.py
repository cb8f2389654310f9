import torch
from torch.distributions.distribution import Distribution, broadcast_all, inside
from torch.nn.functional import binary_cross_entropy_with_logits


class Bernoulli(Distribution):
    def __init__(self, probs=None, logits=None, validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        (given,) = broadcast_all(logits if probs is None else probs)
        if probs is None:
            self.logits, self.probs = given, torch.sigmoid(given)
        else:
            safe = inside(given)
            self.probs, self.logits = given, torch.log(safe) - torch.log1p(-safe)
        super().__init__(given.shape, validate_args=validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    mode = property(lambda self: (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, torch.nan))

    def expand(self, batch_shape, _instance=None):
        return Bernoulli(logits=self.logits.expand(batch_shape))

    def sample(self, sample_shape=()):
        return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape))).detach()

    def log_prob(self, value):
        value, logits = broadcast_all(value, self.logits)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
