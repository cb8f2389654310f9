import torch
from torch.distributions import constraints
from torch.distributions.categorical import Categorical
from torch.distributions.distribution import Distribution


class OneHotCategorical(Distribution):
    arg_constraints, support = {"probs": constraints.simplex, "logits": constraints.real_vector}, constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    probs = mean = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)
    mode = property(lambda self: self._one_hot(self._categorical.mode))
    variance = property(lambda self: self.probs * (1 - self.probs))

    def _one_hot(self, indices):
        return torch.nn.functional.one_hot(indices, self._categorical._num_events).to(self.probs)

    def expand(self, batch_shape, _instance=None):
        return self._filled(OneHotCategorical(logits=self.logits.expand([*batch_shape, *self._event_shape])), _instance,
                            _categorical=self._categorical.expand(batch_shape))

    def sample(self, sample_shape=()):
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value):
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        count = self._event_shape[0]
        values = torch.eye(count, dtype=self.probs.dtype).view(count, *(1 for size in self._batch_shape), count)
        return values.expand(count, *self._batch_shape, count) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    has_rsample = True

    def rsample(self, sample_shape=()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
