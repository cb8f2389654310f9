import math

import torch
from torch.distributions import constraints
from torch.distributions.categorical import Categorical
from torch.distributions.distribution import Distribution, broadcast_all, inside
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.transforms import ExpTransform


class ExpRelaxedCategorical(Distribution):
    arg_constraints, support = {"probs": constraints.simplex, "logits": constraints.real_vector}, constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)

    def expand(self, batch_shape, _instance=None):
        return self._filled(ExpRelaxedCategorical(self.temperature, logits=self.logits.expand([*batch_shape, *self._event_shape])), _instance)

    def rsample(self, sample_shape=()):
        drawn = inside(torch.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        scores = (self.logits - (-drawn.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value):
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        score = torch.log_softmax(logits - value * self.temperature, -1).sum(-1)
        return score + math.lgamma(count) + (count - 1) * self.temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    arg_constraints, support = {"probs": constraints.simplex, "logits": constraints.real_vector}, constraints.simplex

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

    def expand(self, batch_shape, _instance=None):
        return self._filled(RelaxedOneHotCategorical(self.temperature, logits=self.logits.expand([*batch_shape, *self._event_shape])), _instance)
