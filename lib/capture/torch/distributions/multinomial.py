import torch
from torch.distributions import constraints
from torch.distributions.binomial import Binomial
from torch.distributions.categorical import Categorical
from torch.distributions.distribution import Distribution, broadcast_all


class Multinomial(Distribution):
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count, self._categorical = total_count, Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)
    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Multinomial(self.total_count, logits=self.logits.expand([*batch_shape, *self._event_shape])), _instance,
                            _categorical=self._categorical.expand(batch_shape))

    def sample(self, sample_shape=()):
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = torch.zeros(self._extended_shape(sample_shape), dtype=torch.int64)
        return counts.scatter_add(-1, drawn, torch.ones_like(drawn)).type_as(self.probs).detach()

    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -torch.inf), 0)
        return torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self):
        count = torch.tensor(self.total_count)
        binomial = Binomial(self.total_count, probs=self.probs)
        values = binomial.enumerate_support(expand=False)[1:]
        repeated = torch.exp(binomial.log_prob(values)) * torch.lgamma(values + 1)
        return count * self._categorical.entropy() - torch.lgamma(count + 1) + repeated.sum([0, -1])
