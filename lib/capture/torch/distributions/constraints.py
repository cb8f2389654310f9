# Regions in which parameters and samples lie: libraries state them for their own distributions and ask for the axes of an event.
import torch


class Constraint:
    is_discrete = False
    event_dim = 0  # how many of the last axes are one event

    def check(self, value):
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__.removeprefix("_") + "()"


class _Dependent(Constraint):
    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def _known(self, name):
        if (value := getattr(self, "_" + name)) is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    is_discrete = property(lambda self: self._known("is_discrete"))
    event_dim = property(lambda self: self._known("event_dim"))

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value):
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return result.reshape(result.shape[: result.dim() - self.reinterpreted_batch_ndims] + (-1,)).all(-1)

    def __repr__(self):
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


def _bounded(name, check, *bounds, discrete=False):
    """A class of constraints with these bounds."""

    def init(self, *values):
        self.__dict__.update(zip(bounds, values, strict=True))

    def text(self):
        return f"{name.removeprefix('_')}({', '.join(f'{bound}={getattr(self, bound)}' for bound in bounds)})"

    return type(name, (Constraint,), {"__init__": init, "__repr__": text, "is_discrete": discrete,
                                      "check": lambda self, x: check(x, *(getattr(self, bound) for bound in bounds))})


def _plain(name, check, event_dim=0, discrete=False):
    """The one constraint of its class."""
    return type(name, (Constraint,), {"check": lambda self, x: check(x), "event_dim": event_dim, "is_discrete": discrete})()


_GreaterThan = _bounded("_GreaterThan", lambda x, low: low < x, "lower_bound")
_GreaterThanEq = _bounded("_GreaterThanEq", lambda x, low: low <= x, "lower_bound")
_LessThan = _bounded("_LessThan", lambda x, high: x < high, "upper_bound")
_Interval = _bounded("_Interval", lambda x, low, high: (low <= x) & (x <= high), "lower_bound", "upper_bound")
_HalfOpenInterval = _bounded("_HalfOpenInterval", lambda x, low, high: (low <= x) & (x < high), "lower_bound", "upper_bound")
_IntegerInterval = _bounded("_IntegerInterval", lambda x, low, high: (x % 1 == 0) & (low <= x) & (x <= high), "lower_bound", "upper_bound", discrete=True)
_IntegerGreaterThan = _bounded("_IntegerGreaterThan", lambda x, low: (x % 1 == 0) & (x >= low), "lower_bound", discrete=True)


def is_dependent(constraint):
    return isinstance(constraint, _Dependent)


def _is_lower(x):
    return (x.tril() == x).flatten(-2).all(-1)


def _is_square(x):
    return torch.full(x.shape[:-2], x.shape[-2] == x.shape[-1])


def _is_symmetric(x):
    return torch.isclose(x, x.mT, atol=1e-6).all(-2).all(-1)


def _has_positive_diagonal(x):
    return (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _plain("_Boolean", lambda x: (x == 0) | (x == 1), discrete=True)
one_hot = _plain("_OneHot", lambda x: ((x == 0) | (x == 1)).all(-1) & x.sum(-1).eq(1), event_dim=1, discrete=True)
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _plain("_Real", lambda x: x == x)
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
unit_interval = _Interval(0.0, 1.0)
half_open_interval = _HalfOpenInterval
simplex = _plain("_Simplex", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), event_dim=1)
square = _plain("_Square", _is_square, event_dim=2)
symmetric = _plain("_Symmetric", lambda x: _is_square(x) & _is_symmetric(x), event_dim=2)
lower_triangular = _plain("_LowerTriangular", _is_lower, event_dim=2)
lower_cholesky = _plain("_LowerCholesky", lambda x: _is_lower(x) & _has_positive_diagonal(x), event_dim=2)
positive_definite = _plain("_PositiveDefinite", lambda x: _is_symmetric(x) & torch.linalg.cholesky_ex(x).info.eq(0), event_dim=2)
