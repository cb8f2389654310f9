# What code asks about sizes that may be symbolic.
import functools
import operator

import _atenon


__all__ = ["guard_or_false", "guard_or_true", "has_free_symbols", "has_static_value", "is_symbolic", "statically_known_true",
           "sym_and", "sym_eq", "sym_or"]


def _settled(truth):
    """Python's own bool where what is known of the symbols decides it."""
    return truth & True if isinstance(truth, _atenon.SymBool) else truth


def sym_and(first, *others):
    return functools.reduce(operator.and_, others, first)


def sym_or(first, *others):
    return functools.reduce(operator.or_, others, first)


def sym_eq(x, y):
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and sym_and(True, *map(sym_eq, x, y))
    return x == y


def is_symbolic(value):
    return isinstance(value, (_atenon.SymInt, _atenon.SymFloat, _atenon.SymBool))


def has_free_symbols(value):
    return any(map(has_free_symbols, value)) if isinstance(value, (tuple, list)) else is_symbolic(value)


def has_static_value(value):
    return not is_symbolic(value)


def statically_known_true(truth):
    return _settled(truth) is True


def _guard_or(truth, default):
    """What the example inputs say of sizes, which is then assumed; `default` where only data could tell."""
    try:
        return bool(truth)
    except _atenon.CaptureError as error:
        if error.code != 311:
            raise
        return default


def guard_or_false(truth):
    return _guard_or(truth, False)


def guard_or_true(truth):
    return _guard_or(truth, True)
