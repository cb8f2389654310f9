# torch.jit: scripting and tracing do not exist here; what decorates or asks about them has no effect.
import typing
from typing import Final

from torch import _placeholder
from torch._constants import answer, unchanged
from torch.nn.modules.module import Module

is_scripting = answer(False)
is_tracing = answer(False)
export = ignore = unused = interface = script_method = unchanged
script = unchanged
script_if_tracing = _script_if_tracing = unchanged
_overload = _overload_method = unchanged
set_fusion_strategy = enable_onednn_fusion = answer()
onednn_fusion_enabled = answer(False)


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
    raise NotImplementedError("torch.jit.trace is not supported: atenon capture follows the Python of the model itself")


trace_module = trace

__getattr__ = _placeholder.getter(__name__)
