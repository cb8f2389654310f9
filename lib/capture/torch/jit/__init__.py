# torch.jit: scripted code runs as the Python that it is, and is told that it is scripted. Tracing does not exist.
import functools
import types
import typing
from typing import Final

from torch._constants import answer, nothing, unchanged
from torch._placeholder import Unsupported
from torch.nn.modules.module import Module

_scripted_calls = 0  # under way


def is_scripting():
    return _scripted_calls > 0


def script_method(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        global _scripted_calls
        _scripted_calls += 1
        try:
            return function(*args, **kwargs)
        finally:
            _scripted_calls -= 1

    return call


def script(obj, *args, **kwargs):
    if type(obj) is types.FunctionType:
        return script_method(obj)
    if issubclass(type(obj), Module):
        obj.forward = script_method(obj.forward)
    return obj


is_tracing = answer(False)
export = ignore = unused = interface = unchanged
script_if_tracing = _script_if_tracing = unchanged
_overload = _overload_method = unchanged
set_fusion_strategy = enable_onednn_fusion = answer()
onednn_fusion_enabled = answer(False)
fuser = optimized_execution = strict_fusion = nothing


def freeze(mod, *args, **kwargs):
    return mod


optimize_for_inference = run_frozen_optimizations = freeze


class Future:
    """What a task has computed: it runs where it is forked."""

    def __init__(self, value=None):
        self._value = value

    def value(self):
        return self._value

    wait = value

    def done(self):
        return True

    def then(self, callback):
        return Future(callback(self))

    def set_result(self, value):
        self._value = value


def fork(func, *args, **kwargs):
    return Future(func(*args, **kwargs))


def wait(future):
    return future.wait()


_fork, _wait = fork, wait


def annotate(the_type, the_value):
    return the_value


def isinstance(obj, target_type):
    import builtins

    origin = typing.get_origin(target_type) or target_type
    return builtins.isinstance(obj, origin)


class Attribute(typing.NamedTuple):
    value: object
    type: object


class ScriptModule(Module):
    """A module whose methods are Python's, as they are written."""


class RecursiveScriptModule(ScriptModule):
    pass


class ScriptFunction:
    """Nothing is an instance of it."""


class TracerWarning(Warning):
    pass


def trace(func, *args, **kwargs):
    raise Unsupported("torch.jit.trace is not supported", "torch.jit.trace")


trace_module = trace
