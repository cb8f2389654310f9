# torch.library: operators of the user's own. Each is one node of the graph; see _custom_operators.py.
import contextlib

import _atenon

from torch import _custom_operators, _ops
from torch._constants import unchanged
from torch._custom_operators import canonical
from torch._operators import OpOverload

__all__ = ["CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract", "infer_schema",
           "opcheck", "register_autocast", "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch",
           "register_vmap", "triton_op", "wrap_triton"]


def _name_of(op):
    return canonical(op._qualname if isinstance(op, CustomOpDef) else op.name() if isinstance(op, OpOverload) else op)


def _function_of(name):
    namespace, _, operator = name.partition("::")
    operator, _, overload = operator.partition(".")
    return getattr(getattr(getattr(_ops.ops, namespace), operator), overload or "default")


class CustomOpDef:
    """What @custom_op makes of a function."""

    def __init__(self, name, function, schema):
        self._qualname = canonical(name)
        self._name = self._qualname.partition("::")[2]
        self._namespace = self._qualname.partition("::")[0]
        self._init_fn = function
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__
        _custom_operators.declare(self._qualname, schema)
        _custom_operators.register(self._qualname, "default", function)
        self._opoverload = _function_of(self._qualname)

    def __call__(self, *args, **kwargs):
        return self._opoverload(*args, **kwargs)

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    def register_fake(self, function):
        _custom_operators.register(self._qualname, "fake", function)
        return function

    def register_kernel(self, device_types, function=None):
        return register_kernel(self, device_types, function)

    def register_autograd(self, backward, *, setup_context=None):
        pass

    def register_vmap(self, function=None):
        return unchanged if function is None else function

    register_torch_dispatch = register_autocast = lambda self, *args: unchanged(*args[1:])

    def set_kernel_enabled(self, device_type, enabled=True):
        return contextlib.nullcontext()


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    def make(function):
        return CustomOpDef(name, function, schema or infer_schema(function, mutates_args=mutates_args))

    return make if fn is None else make(fn)


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    return _custom_operators.infer_schema(prototype_function, mutates_args, op_name)


class _Inlined:
    """A triton_op: its function is followed, since it is a name for the kernels inside."""

    def __init__(self, name, function):
        self._qualname = name
        self.__call__ = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *args, **kwargs):
        return self.__dict__["__call__"](*args, **kwargs)

    def register_fake(self, function):
        return function

    register_kernel = register_autograd = register_vmap = register_torch_dispatch = lambda self, *args, **kwargs: unchanged(*args)


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    return (lambda function: _Inlined(name, function)) if fn is None else _Inlined(name, fn)


wrap_triton = unchanged


def _decorator(given, register):
    """Registers what is given, or what is decorated."""
    def take(function):
        register(function)
        return function

    return take if given is None else take(given)


def register_fake(op, func=None, /, *, lib=None, allow_override=False, _stacklevel=1):
    return _decorator(func, lambda f: _custom_operators.register(_name_of(op), "fake", f))


impl_abstract = register_fake


def register_kernel(op, device_types, func=None, /, *, lib=None):
    keys = ["default"] if device_types is None else [device_types] if isinstance(device_types, str) else device_types
    return _decorator(func, lambda f: [_custom_operators.register(_name_of(op), key, f) for key in keys])


def impl(name, types="", func=None, key="", *, lib=None):
    """impl("my::f", "cpu") and, as it once was, impl(library, "f", "CPU")."""
    if isinstance(name, Library):
        return _decorator(None, lambda f: name.impl(types, f, func or key))
    return register_kernel(name, types, func)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    pass


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    pass


def register_vmap(op, func=None, /, *, lib=None):
    return unchanged if func is None else func


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    return unchanged if func is None else func


def define(name, schema=None, alias_analysis="", *, lib=None, tags=()):
    """define("my::f", "(Tensor x) -> Tensor") and, as a decorator, define(library, "f(Tensor x) -> Tensor")."""
    if isinstance(name, Library):
        operator = name.define(schema)
        return _decorator(None, lambda f: name.impl(operator, f, ""))
    _custom_operators.declare(name, schema)


def fallthrough_kernel(*args, **kwargs):
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    def __init__(self, ns, kind, dispatch_key=""):
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema, alias_analysis="", *, tags=()):
        name, _, rest = schema.strip().partition("(")
        name = name.strip().removeprefix(self.ns + "::")
        _custom_operators.declare(f"{self.ns}::{name}", "(" + rest)
        return name

    def _name(self, operator):
        operator = operator.name() if isinstance(operator, OpOverload) else str(operator)
        return operator if "::" in operator else f"{self.ns}::{operator}"

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        if fn is not fallthrough_kernel:
            _custom_operators.register(self._name(op_name), dispatch_key or self.dispatch_key, fn)

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        _custom_operators.register(self._name(op_name), "fake", fn)

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        pass

    def _destroy(self):
        pass


class FakeImplCtx:
    """What a fake function asks for sizes that only data decide."""

    def new_dynamic_size(self, *, min=0, max=None):
        if type(min) is not int or (max is not None and type(max) is not int):
            raise ValueError("new_dynamic_size takes constants for min and max")
        if min < 0:
            raise ValueError(f"a size is not less than 0, so min cannot be {min}")
        return _atenon.new_symbol(min, max)

    def create_unbacked_symint(self, *, min=2, max=None):
        return self.new_dynamic_size(min=min, max=max)


def get_ctx():
    return FakeImplCtx()


def opcheck(op, args, kwargs=None, *, test_utils=(), raise_exception=True, atol=None, rtol=None):
    """Runs the operator once; its registrations are checked when a program is captured."""
    op(*args, **(kwargs or {}))
    return {}
