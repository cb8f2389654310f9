import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, chance
from torch.nn.functional import logsigmoid


class NegativeBinomial(Distribution):
    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self.probs, self.logits, count = chance(probs, logits, total_count)
        self.total_count = count.type_as(self.probs)
        super().__init__(self.probs.shape, validate_args=validate_args)

    mean = property(lambda self: self.total_count * torch.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / torch.sigmoid(-self.logits))

    def expand(self, batch_shape, _instance=None):
        return self._filled(NegativeBinomial(self.total_count.expand(batch_shape), logits=self.logits.expand(batch_shape)), _instance,
                            probs=self.probs.expand(batch_shape))

    def log_prob(self, value):
        ways = torch.lgamma(self.total_count + value) - torch.lgamma(1.0 + value) - torch.lgamma(self.total_count)
        ways = ways.masked_fill(self.total_count + value == 0, 0.0)
        return self.total_count * logsigmoid(-self.logits) + value * logsigmoid(self.logits) + ways
