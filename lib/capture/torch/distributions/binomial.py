import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, chance


class Binomial(Distribution):
    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.probs, self.logits, count = chance(probs, logits, total_count)
        self.total_count, self._trials = count.type_as(self.probs), total_count
        super().__init__(self.probs.shape, validate_args=validate_args)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def expand(self, batch_shape, _instance=None):
        count = self._trials.expand(batch_shape) if isinstance(self._trials, torch.Tensor) else self._trials
        return self._filled(Binomial(count, logits=self.logits.expand(batch_shape)), _instance,
                            probs=self.probs.expand(batch_shape))

    def log_prob(self, value):
        ways = torch.lgamma(self.total_count + 1) - torch.lgamma(value + 1) - torch.lgamma(self.total_count - value + 1)
        return value * self.logits + ways - self.total_count * torch.nn.functional.softplus(self.logits)

    def enumerate_support(self, expand=True):
        if isinstance(self._trials, torch.Tensor):
            raise NotImplementedError("enumerate_support of a Binomial whose total_count is a tensor is not supported: give an int")
        values = torch.arange(1 + self._trials, dtype=self.probs.dtype).view([-1] + [1] * len(self._batch_shape))
        return values.expand([-1, *self._batch_shape]) if expand else values

    def entropy(self):
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(log_prob) * log_prob).sum(0)
