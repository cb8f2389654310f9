# Regions in which parameters and samples lie: libraries state them for their own distributions and ask for the axes of an event.
import torch

__all__ = ["Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than", "greater_than_eq",
           "independent", "integer_interval", "interval", "half_open_interval", "is_dependent", "less_than", "lower_cholesky",
           "lower_triangular", "MixtureSameFamilyConstraint", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
           "positive_semidefinite", "positive_definite", "positive_integer", "real", "real_vector", "simplex", "square", "stack",
           "symmetric", "unit_interval"]


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

    def init(self, *values, **named):
        given = dict(zip(bounds, values)) | named
        if len(values) + len(named) != len(bounds) or given.keys() != set(bounds):
            raise TypeError(f"{name} takes {', '.join(bounds)}")
        self.__dict__.update(given)

    def text(self):
        return f"{name.removeprefix('_')}({', '.join(f'{bound}={getattr(self, bound)}' for bound in bounds)})"

    return type(name, (Constraint,), {"__init__": init, "__repr__": text, "is_discrete": discrete,
                                      "check": lambda self, x: check(x, *(getattr(self, bound) for bound in bounds))})


def _plain(name, check, event_dim=0, discrete=False):
    """A class of one constraint."""
    return type(name, (Constraint,), {"check": lambda self, x: check(x), "event_dim": event_dim, "is_discrete": discrete})


class MixtureSameFamilyConstraint(Constraint):
    def __init__(self, base_constraint):
        self.base_constraint = base_constraint

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim)

    def check(self, value):
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return result.reshape(result.shape[: value.dim() - self.event_dim] + (-1,)).all(-1)

    def __repr__(self):
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Sequence(Constraint):
    """Constraints for the parts of a tensor along one axis."""

    is_discrete = property(lambda self: any(part.is_discrete for part in self.cseq))

    def _taken(self, cseq, dim):
        if not all(isinstance(part, Constraint) for part in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq, self.dim = list(cseq), dim


class _Cat(_Sequence):
    def __init__(self, cseq, dim=0, lengths=None):
        self._taken(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    event_dim = property(lambda self: max(part.event_dim for part in self.cseq))

    def check(self, value):
        starts = [sum(self.lengths[:at]) for at in range(len(self.lengths))]
        return torch.cat([part.check(value.narrow(self.dim, start, length))
                          for part, start, length in zip(self.cseq, starts, self.lengths)], self.dim)


class _Stack(_Sequence):
    def __init__(self, cseq, dim=0):
        self._taken(cseq, dim)

    @property
    def event_dim(self):
        axes = max(part.event_dim for part in self.cseq)
        return axes + 1 if self.dim + axes < 0 else axes

    def check(self, value):
        return torch.stack([part.check(piece) for part, piece in zip(self.cseq, value.unbind(self.dim))], self.dim)


_GreaterThan = _bounded("_GreaterThan", lambda x, low: low < x, "lower_bound")
_GreaterThanEq = _bounded("_GreaterThanEq", lambda x, low: low <= x, "lower_bound")
_LessThan = _bounded("_LessThan", lambda x, high: x < high, "upper_bound")
_Interval = _bounded("_Interval", lambda x, low, high: (low <= x) & (x <= high), "lower_bound", "upper_bound")
_HalfOpenInterval = _bounded("_HalfOpenInterval", lambda x, low, high: (low <= x) & (x < high), "lower_bound", "upper_bound")
_IntegerInterval = _bounded("_IntegerInterval", lambda x, low, high: (x % 1 == 0) & (low <= x) & (x <= high), "lower_bound", "upper_bound", discrete=True)
_IntegerLessThan = _bounded("_IntegerLessThan", lambda x, high: (x % 1 == 0) & (x <= high), "upper_bound", discrete=True)
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


def _has_rows_of_length_one(x):
    away = (torch.linalg.norm(x.detach(), dim=-1) - 1.0).abs()
    return away.le(torch.finfo(x.dtype).eps * x.size(-1) * 10).all(-1)


_Multinomial = _bounded("_Multinomial", lambda x, most: (x >= 0).all(-1) & (x.sum(-1) <= most), "upper_bound", discrete=True)
_Multinomial.event_dim = 1
_Boolean = _plain("_Boolean", lambda x: (x == 0) | (x == 1), discrete=True)
_OneHot = _plain("_OneHot", lambda x: ((x == 0) | (x == 1)).all(-1) & x.sum(-1).eq(1), event_dim=1, discrete=True)
_Real = _plain("_Real", lambda x: x == x)
_Simplex = _plain("_Simplex", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), event_dim=1)
_Square = _plain("_Square", _is_square, event_dim=2)
_Symmetric = _plain("_Symmetric", lambda x: _is_square(x) & _is_symmetric(x), event_dim=2)
_LowerTriangular = _plain("_LowerTriangular", _is_lower, event_dim=2)
_LowerCholesky = _plain("_LowerCholesky", lambda x: _is_lower(x) & _has_positive_diagonal(x), event_dim=2)
_CorrCholesky = _plain("_CorrCholesky", lambda x: _is_lower(x) & _has_positive_diagonal(x) & _has_rows_of_length_one(x), event_dim=2)
_PositiveSemidefinite = _plain("_PositiveSemidefinite", lambda x: _is_symmetric(x) & torch.linalg.eigvalsh(x).ge(0).all(-1), event_dim=2)
_PositiveDefinite = _plain("_PositiveDefinite", lambda x: _is_symmetric(x) & torch.linalg.cholesky_ex(x).info.eq(0), event_dim=2)

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
interval = _Interval
unit_interval = _Interval(0.0, 1.0)
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
