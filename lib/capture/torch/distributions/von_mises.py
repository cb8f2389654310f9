# A distribution on the circle. The Bessel functions are PyTorch's polynomials, those of Abramowitz and Stegun (9.8.1 to 9.8.4): they
# are good to about 1e-7, so torch.special's own would differ in f64.
import math

import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all, lazy_property

_SMALL = [[1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2],
          [0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3]]
_LARGE = [[0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1, 0.2635537e-1, -0.1647633e-1, 0.392377e-2],
          [0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1, -0.2895312e-1, 0.1787654e-1, -0.420059e-2]]


def _polynomial(y, coefficients):
    result = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = coefficient + y * result
    return result


def _log_modified_bessel_fn(x, order=0):
    """log(I_order(x)) for x > 0 and the orders 0 and 1."""
    small = _polynomial((x / 3.75).square(), _SMALL[order])
    small = (x.abs() * small if order else small).log()
    large = x - 0.5 * x.log() + _polynomial(3.75 / x, _LARGE[order]).log()
    return torch.where(x < 3.75, small, large)


class VonMises(Distribution):
    arg_constraints, support = {"loc": constraints.real, "concentration": constraints.positive}, constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        return 1 - (_log_modified_bessel_fn(self.concentration, order=1) - _log_modified_bessel_fn(self.concentration)).exp()

    def expand(self, batch_shape, _instance=None):
        return self._filled(VonMises(self.loc.expand(batch_shape), self.concentration.expand(batch_shape)), _instance)

    def log_prob(self, value):
        return (self.concentration * torch.cos(value - self.loc) - math.log(2 * math.pi)
                - _log_modified_bessel_fn(self.concentration))
