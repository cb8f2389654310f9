from torch.distributions.distribution import Distribution
from torch.distributions.transforms import Transform


class TransformedDistribution(Distribution):
    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self.base_dist = base_distribution
        super().__init__(base_distribution.batch_shape, base_distribution.event_shape, validate_args=validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    def _through(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape=()):
        return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=()):
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        total = 0.0
        for transform in reversed(self.transforms):
            before = transform._inv_call(value)
            slope = transform.log_abs_det_jacobian(before, value)
            summed = len(self._event_shape) - getattr(transform, "event_dim", 0)
            total, value = total - (slope.sum(list(range(-summed, 0))) if summed else slope), before
        return total + self.base_dist.log_prob(value)
