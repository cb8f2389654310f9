# From a region to the transform that takes unconstrained numbers into it: `biject_to` gives one that loses nothing, `transform_to` any.
from torch.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    def __init__(self):
        self._registry = {}

    def register(self, constraint, factory=None):
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {kind}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint):
        if type(constraint) not in self._registry:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return self._registry[type(constraint)](constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _beyond(bound, sign):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(bound, sign)])


def _between(region):
    low, high = region.lower_bound, region.upper_bound
    if {type(low), type(high)} <= {int, float} and low == 0 and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _positive_definite(region):
    return transforms.PositiveDefiniteTransform()


for _registry in (biject_to, transform_to):
    _registry.register(constraints.real, lambda region: transforms.identity_transform)
    _registry.register(constraints.independent, lambda region, of=_registry: transforms.IndependentTransform(
        of(region.base_constraint), region.reinterpreted_batch_ndims))
    # `positive` is of the class `greater_than`: the later, general entry holds for both.
    _registry.register(constraints.greater_than, lambda region: _beyond(region.lower_bound, 1))
    _registry.register(constraints.greater_than_eq, lambda region: _beyond(region.lower_bound, 1))
    _registry.register(constraints.less_than, lambda region: _beyond(region.upper_bound, -1))
    _registry.register(constraints.interval, _between)
    _registry.register(constraints.half_open_interval, _between)
    _registry.register(constraints.corr_cholesky, lambda region: transforms.CorrCholeskyTransform())
    _registry.register(constraints.cat, lambda region, of=_registry: transforms.CatTransform(
        [of(part) for part in region.cseq], region.dim, region.lengths))
    _registry.register(constraints.stack, lambda region, of=_registry: transforms.StackTransform(
        [of(part) for part in region.cseq], region.dim))
biject_to.register(constraints.simplex, lambda region: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda region: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda region: transforms.LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, _positive_definite)
transform_to.register(constraints.positive_semidefinite, _positive_definite)
