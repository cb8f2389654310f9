from torch.distributions import constraints
from torch.distributions.distribution import Distribution


class Independent(Distribution):
    """Counts the last axes of a distribution's batch as part of the event: their logarithms are summed."""

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        shape, count = base_distribution.batch_shape, reinterpreted_batch_ndims
        if count > len(shape):
            raise ValueError(f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual {count} vs {len(shape)}")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        edge = len(shape) - count
        super().__init__(shape[:edge], [*shape[edge:], *base_distribution.event_shape], validate_args=validate_args)

    arg_constraints = {}
    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self):
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        count = self.reinterpreted_batch_ndims
        return constraints.independent(self.base_dist.support, count) if count else self.base_dist.support

    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Independent, _instance)
        own = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist, new.reinterpreted_batch_ndims = self.base_dist.expand([*batch_shape, *own]), self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self.event_shape)
        return new

    def _summed(self, value):
        return value.sum(list(range(-self.reinterpreted_batch_ndims, 0))) if self.reinterpreted_batch_ndims else value

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self):
        return self._summed(self.base_dist.entropy())

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)
