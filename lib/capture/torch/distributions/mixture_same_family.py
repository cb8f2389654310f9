import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution


class MixtureSameFamily(Distribution):
    arg_constraints = {}

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args=validate_args)

    def _weights(self):
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1 for axis in self._event_shape))

    def _averaged(self, values):
        return torch.sum(self._weights() * values, -1 - len(self._event_shape))

    mean = property(lambda self: self._averaged(self.component_distribution.mean))

    @property
    def variance(self):
        away = self.component_distribution.mean - self.mean.unsqueeze(-1 - len(self._event_shape))
        return self._averaged(self.component_distribution.variance) + self._averaged(away.pow(2.0))

    def expand(self, batch_shape, _instance=None):
        components = self.component_distribution.expand([*batch_shape, self.component_distribution.batch_shape[-1]])
        return self._filled(MixtureSameFamily(self.mixture_distribution.expand(batch_shape), components), _instance)

    def sample(self, sample_shape=()):
        chosen = self.mixture_distribution.sample(sample_shape)
        drawn = self.component_distribution.sample(sample_shape)
        axis = chosen.dim()
        places = chosen.reshape(*chosen.shape, 1, *(1 for size in self._event_shape))
        return drawn.gather(axis, places.expand(*chosen.shape, 1, *self._event_shape)).squeeze(axis)

    def log_prob(self, value):
        parts = self.component_distribution.log_prob(value.unsqueeze(-1 - len(self._event_shape)))
        return torch.logsumexp(parts + torch.log_softmax(self.mixture_distribution.logits, -1), -1)

    def cdf(self, value):
        parts = self.component_distribution.cdf(value.unsqueeze(-1 - len(self._event_shape)))
        return torch.sum(parts * self.mixture_distribution.probs, -1)
