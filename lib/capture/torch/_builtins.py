# Python's own max, min, len, math.sqrt, exp, log, log2, isqrt and pow, for sizes and numbers that are symbolic and for tensors that are traced.
#
# CPython's would compare, and so ask for one answer where both are possible, or insist on a number of their own. In the process of
# a capture they are these instead: the same for all other arguments. What Python would refuse (the root of -1) is required not to be.
import builtins
import functools
import math
import operator

import _atenon

from torch._operators import aten
from torch._tensor import Tensor


_plain = {int, float, bool, str}


def _are(kinds, symbolic, values):
    return all(isinstance(value, kinds) for value in values) and any(isinstance(value, symbolic) for value in values)


def _extreme(name):
    python = getattr(builtins, name)

    def of_tensors(a, b):  # b where it is ahead, as Python takes the first of equals
        return aten.where(b > a if name == "max" else b < a, b, a)

    @functools.wraps(python)
    def extreme(*args, **options):
        if options or not args:
            return python(*args, **options)
        values = args if len(args) > 1 else list(args[0])
        if _plain.issuperset(map(type, values)):  # nearly every call, of which importing a library makes 100000s
            return python(values)
        if _are(int, _atenon.SymInt, values) or _are(float, _atenon.SymFloat, values):
            return functools.reduce(functools.partial(_atenon.sym, name), values)
        if len(values) > 1 and _are(Tensor, Tensor, values) and _atenon.is_tracing() and not any(value.dim() for value in values):
            if len({value.dtype for value in values}) == 1:
                return functools.reduce(of_tensors, values)
        return python(values)

    return extreme


def _function(name, allowed, reason):
    python = getattr(math, name)

    @functools.wraps(python)
    def function(x, *base):
        if not isinstance(x, (_atenon.SymInt, _atenon.SymFloat)):
            return python(x, *base)
        if base:  # of a logarithm
            return function(x) / function(*base)
        if not _atenon.require(allowed(x), reason):
            return python(-1)  # raises what Python would
        return _atenon.sym(name, x)

    return function


_root = math.isqrt


@functools.wraps(math.isqrt)
def _isqrt(n):
    if not isinstance(n, _atenon.SymInt):
        return _root(n)
    if not _atenon.require(n >= 0, "math.isqrt takes no negative number"):
        return _root(-1)
    if not _atenon.require(n < 2**52, "math.isqrt of a size"):  # whose root, as a double, is not rounded up to a whole
        return _root(operator.index(n))
    return _atenon.sym("int", _atenon.sym("sqrt", n))


_power = math.pow


@functools.wraps(math.pow)
def _pow(x, y):
    symbolic = (_atenon.SymInt, _atenon.SymFloat)
    if not isinstance(x, symbolic) and not isinstance(y, symbolic):
        return _power(x, y)
    return _atenon.sym("float", x) ** _atenon.sym("float", y)


builtins.max, builtins.min, builtins.len = _extreme("max"), _extreme("min"), _atenon.len
math.sqrt = _function("sqrt", lambda x: x >= 0, "math.sqrt takes no negative number")
math.exp = _function("exp", lambda x: x <= 709, "math.exp takes numbers up to 709")
math.log = _function("log", lambda x: x > 0, "math.log takes positive numbers")
math.log2 = _function("log2", lambda x: x > 0, "math.log2 takes positive numbers")
math.isqrt = _isqrt
math.pow = _pow
