# What all distributions have: a shape of independent ones (batch) and one of the values of each (event).
import functools

import torch


class lazy_property:
    """Computed when it is first read, and kept; of the class it is a property."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance, owner=None):
        if instance is None:
            return _LazyPropertyOfClass(self.wrapped)
        value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _LazyPropertyOfClass(lazy_property, property):
    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def broadcast_all(*values):
    """Numbers and tensors as tensors of one shape; numbers take the type of the tensors."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    dtype = tensors[0].dtype if tensors else torch.get_default_dtype()
    return torch.broadcast_tensors(*(v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=dtype) for v in values))


def inside(probs):
    """Probabilities that have a logarithm, and whose complement has one."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def chance(probs, logits, *others):
    """The probability and the log-odds of an event of which one is given, and what is broadcast with them."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    given, *others = broadcast_all(logits if probs is None else probs, *others)
    if probs is None:
        return torch.sigmoid(given), given, *others
    safe = inside(given)
    return given, torch.log(safe) - torch.log1p(-safe), *others


def _missing(name):
    def raises(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no {name}")

    return raises


class Distribution:
    has_rsample = False
    has_enumerate_support = False
    _validate_args = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if cls.__doc__ is None and cls.__module__.startswith("torch.distributions"):
            cls.__doc__ = f"{cls.__module__}.{cls.__name__}"  # libraries join it to texts of theirs

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = torch.Size(batch_shape), torch.Size(event_shape)
        super().__init__()

    @staticmethod
    def set_default_validate_args(value):
        pass

    batch_shape = property(lambda self: self._batch_shape)
    event_shape = property(lambda self: self._event_shape)
    stddev = property(lambda self: self.variance.sqrt())

    # What a class does not give is an error of this one's: it names what is missing.
    for _name in ("arg_constraints", "support", "mean", "mode", "variance"):
        vars()[_name] = property(_missing(_name))
    for _name in ("log_prob", "cdf", "icdf", "entropy", "enumerate_support", "expand"):
        vars()[_name] = _missing(_name)
    del _name

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                                      "define a custom .expand() method.")
        return self.__new__(type(self)) if _instance is None else _instance

    def _filled(self, expanded, instance, **exact):
        """`expanded`, as one of the class of self: libraries derive from ours, and may give the instance to fill. `exact` are attributes
        that its constructor would round: a probability of 0 has no logarithm."""
        new = self._get_checked_instance(type(expanded), instance)
        vars(new).update(vars(expanded), **exact)
        return new

    def _validate_sample(self, value):
        pass  # a program cannot look at its values

    def _extended_shape(self, sample_shape=()):
        return torch.Size([*sample_shape, *self._batch_shape, *self._event_shape])

    def sample(self, sample_shape=()):
        return self.rsample(sample_shape).detach()

    def sample_n(self, n):
        return self.sample((n,))

    def rsample(self, sample_shape=()):
        raise NotImplementedError(f"drawing from {type(self).__name__} is not supported: its draws are repeated until they fit")

    def perplexity(self):
        return self.entropy().exp()

    def __repr__(self):
        return f"{type(self).__name__}(batch_shape={tuple(self._batch_shape)}, event_shape={tuple(self._event_shape)})"
