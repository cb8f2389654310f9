import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all, chance, inside
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.transforms import SigmoidTransform


class LogitRelaxedBernoulli(Distribution):
    arg_constraints, support = {"probs": constraints.unit_interval, "logits": constraints.real}, constraints.real
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self.probs, self.logits = chance(probs, logits)
        super().__init__(self.probs.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._filled(LogitRelaxedBernoulli(self.temperature, logits=self.logits.expand(batch_shape)), _instance)

    def rsample(self, sample_shape=()):
        drawn = inside(torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))
        probs = inside(self.probs)
        return (drawn.log() - (-drawn).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        apart = logits - value * self.temperature
        return self.temperature.log() + apart - 2 * apart.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    arg_constraints, support = {"probs": constraints.unit_interval, "logits": constraints.real}, constraints.unit_interval

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

    def expand(self, batch_shape, _instance=None):
        return self._filled(RelaxedBernoulli(self.temperature, logits=self.logits.expand(batch_shape)), _instance)
