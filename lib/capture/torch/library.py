# torch.library: a custom operator is its Python function, which capture follows like any other.
from torch import _placeholder
from torch._constants import unchanged

__all__ = ["Library", "custom_op", "define", "impl", "register_autograd", "register_fake", "register_kernel"]


class CustomOpDef:
    """What @custom_op makes: calls its function; registrations have no effect."""

    def __init__(self, name, function):
        self._qualname = name
        self._function = function
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def register_fake(self, function):
        return function

    register_vmap = register_torch_dispatch = register_fake

    def register_kernel(self, device_types, function=None):
        return (lambda f: f) if function is None else function

    def register_autograd(self, backward, *, setup_context=None):
        pass


def custom_op(name, function=None, *, mutates_args=(), device_types=None, schema=None, tags=None):
    if function is not None:
        return CustomOpDef(name, function)
    return lambda f: CustomOpDef(name, f)


triton_op = custom_op
wrap_triton = unchanged


def _registers(position):
    """A registration that takes a function at `position`, or decorates one."""
    def register(*args, func=None, **kwargs):
        given = args[position] if len(args) > position else func
        return (lambda f: f) if given is None else given

    return register


register_fake = register_torch_dispatch = register_vmap = impl_abstract = _registers(1)
register_kernel = impl = _registers(2)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    pass


def define(qualname, schema=None, *, lib=None, tags=()):
    return unchanged


class Library:
    def __init__(self, ns, kind, dispatch_key=""):
        self.ns = ns

    def define(self, schema, alias_analysis="", *, tags=()):
        return schema.split("(")[0]

    def impl(self, op_name, function, dispatch_key="", **options):
        pass

    def fallback(self, function, dispatch_key="", **options):
        pass


__getattr__ = _placeholder.getter(__name__)
