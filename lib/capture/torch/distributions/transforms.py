# Invertible functions of samples, element by element, with the logarithm of their slope.
import math

import torch
from torch.nn.functional import softplus


class Transform:
    bijective = True

    def __init__(self, cache_size=0):
        self._cache_size, self._last = cache_size, (None, None)

    @property
    def inv(self):
        return _Inverse(self)

    def with_cache(self, cache_size=1):
        self._cache_size = cache_size
        return self

    def __call__(self, x):
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._last[0]:
            self._last = (x, self._call(x))
        return self._last[1]

    def _inv_call(self, y):
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._last[1]:
            self._last = (self._inverse(y), y)
        return self._last[0]


class _Inverse(Transform):
    def __init__(self, forward):
        super().__init__()
        self.inv = forward

    inv = None

    def _call(self, x):
        return self.inv._inv_call(x)

    def _inverse(self, y):
        return self.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return -self.inv.log_abs_det_jacobian(y, x)


class ComposeTransform(Transform):
    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = list(parts)

    def _call(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y):
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        total = 0
        for part in self.parts:
            after = part(x)
            total, x = total + part.log_abs_det_jacobian(x, after), after
        return total


class _WithoutParameters(Transform):
    def __eq__(self, other):
        return type(self) is type(other)


class ExpTransform(_WithoutParameters):
    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class SigmoidTransform(_WithoutParameters):
    def _inside(self, y):
        limits = torch.finfo(y.dtype)
        return y.clamp(min=limits.tiny, max=1.0 - limits.eps)

    def _call(self, x):
        return self._inside(torch.sigmoid(x))

    def _inverse(self, y):
        y = self._inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x) - softplus(x)


class TanhTransform(_WithoutParameters):
    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AffineTransform(Transform):
    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        slope = torch.as_tensor(self.scale, dtype=x.dtype).abs().log().expand(x.shape)
        return slope.sum(list(range(-self.event_dim, 0))) if self.event_dim else slope
