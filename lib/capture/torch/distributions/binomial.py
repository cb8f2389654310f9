import torch
from torch.distributions.distribution import Distribution, chance


class Binomial(Distribution):
    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.probs, self.logits, count = chance(probs, logits, total_count)
        self.total_count = count.type_as(self.probs)
        super().__init__(self.probs.shape, validate_args=validate_args)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def expand(self, batch_shape, _instance=None):
        return Binomial(self.total_count.expand(batch_shape), logits=self.logits.expand(batch_shape))

    def log_prob(self, value):
        ways = torch.lgamma(self.total_count + 1) - torch.lgamma(value + 1) - torch.lgamma(self.total_count - value + 1)
        return value * self.logits + ways - self.total_count * torch.nn.functional.softplus(self.logits)
