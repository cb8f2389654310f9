# What all distributions have: a shape of independent ones (batch) and one of the values of each (event).
import torch


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


class Distribution:
    has_rsample = False
    has_enumerate_support = False
    _validate_args = False

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = torch.Size(batch_shape), torch.Size(event_shape)

    @staticmethod
    def set_default_validate_args(value):
        pass

    batch_shape = property(lambda self: self._batch_shape)
    event_shape = property(lambda self: self._event_shape)
    stddev = property(lambda self: self.variance.sqrt())

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
