import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution
from torch.distributions.independent import Independent
from torch.distributions.transforms import ComposeTransform, Transform
from torch.distributions.utils import _sum_rightmost


class TransformedDistribution(Distribution):
    """What a base distribution draws, through transforms. Its events have the axes that the base or the transforms couple."""

    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all(isinstance(transform, Transform) for transform in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        shape, own = base_distribution.batch_shape + base_distribution.event_shape, len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        taken, given = whole.domain.event_dim, whole.codomain.event_dim
        if len(shape) < taken:
            raise ValueError(f"base_distribution needs to have shape with size at least {taken}, but got {shape}.")
        after = whole.forward_shape(shape)
        before = whole.inverse_shape(after)
        if shape != before:  # a parameter of a transform has more axes than the base
            base_distribution = base_distribution.expand(before[: len(before) - own])
        self.base_dist = Independent(base_distribution, taken - own) if taken > own else base_distribution
        edge = len(after) - max(given, own + given - taken)
        super().__init__(after[:edge], after[edge:], validate_args=validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        region = self.transforms[-1].codomain
        more = len(self.event_shape) - region.event_dim
        return constraints.independent(region, more) if more > 0 else region

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(TransformedDistribution, _instance)
        shape = torch.Size(batch_shape) + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        Distribution.__init__(new, batch_shape, self.event_shape)
        return new

    def _through(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape=()):
        return self._through(self.base_dist.sample(sample_shape)).detach()

    def rsample(self, sample_shape=()):
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        total, axes = 0.0, len(self.event_shape)
        for transform in reversed(self.transforms):
            before = transform.inv(value)
            axes += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(before, value)
            total, value = total - _sum_rightmost(slope, axes - transform.domain.event_dim), before
        return total + _sum_rightmost(self.base_dist.log_prob(value), axes - len(self.base_dist.event_shape))

    def _rising(self, chance):
        """The chance of less, when the transforms together fall, is that of more."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return chance if type(sign) is int and sign == 1 else sign * (chance - 0.5) + 0.5

    def cdf(self, value):
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._rising(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._through(self.base_dist.icdf(self._rising(value)))
