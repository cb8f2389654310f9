# torch.overrides: classes with a __torch_function__, and modes, say themselves what a function is on them.
#
# A function or method in Python asks through `overridable`, an operator through the hook that `_ask` sets in the native module
# once such a class of tensors is defined or such a mode entered. Classes that are no tensors need no hook: the native module gives up
# on them, and asks then.
import functools
import inspect
import types as _types

import _atenon

from torch import _placeholder

__all__ = ["TorchFunctionMode", "get_default_nowrap_functions", "handle_torch_function", "has_torch_function",
           "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "wrap_torch_function"]

_modes = []  # those entered, the innermost last
_defined = False  # is there a class of tensors with a __torch_function__?
_asks_classes = _asks_modes = True


def _ask():
    """Sets the hook as what is above says."""
    _atenon.set_overriding(_call if _is_in_mode() or _asks_classes and _defined else None)


def _is_in_mode():
    return bool(_asks_modes and _modes)


def disabled_torch_function(func, types, args=(), kwargs=None):
    """torch._C._disabled_torch_function_impl: the __torch_function__ of a class that is as a plain tensor."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def disabled_torch_dispatch(func, types, args=(), kwargs=None):
    """torch._C._disabled_torch_dispatch_impl"""
    return func(*args, **(kwargs or {}))


def no_dispatch(cls):
    refusal = _placeholder.Unsupported(f"{cls.__qualname__}.__torch_dispatch__ is not supported: operators do not ask it")
    refusal.add_note("fix: let it have a __torch_function__ instead, which is told of the functions that are called")
    return refusal


class DisableTorchFunctionSubclass:
    """Inside, classes are not asked."""

    _with_modes = False

    def __enter__(self):
        global _asks_classes, _asks_modes
        self._before = _asks_classes, _asks_modes
        _asks_classes, _asks_modes = False, _asks_modes and not self._with_modes
        _ask()

    def __exit__(self, *error):
        global _asks_classes, _asks_modes
        _asks_classes, _asks_modes = self._before
        _ask()


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Inside, neither classes nor modes are asked."""

    _with_modes = True


class TorchFunctionMode:
    """Inside, every function of torch is __torch_function__(function, types, args, kwargs) of the innermost one: x.size(0) is
    that of Tensor.size, x.shape of Tensor.shape.__get__. Of these two kinds, what it passes on is not asked of outer ones."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _tell_modes()
        _modes.append(self)
        _ask()
        return self

    def __exit__(self, *error):
        _modes.pop()
        _ask()

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def is_overriding(cls):
    """Does a class say itself what functions are on it?"""
    from torch._tensor import Tensor

    own = getattr(cls, "__torch_function__", None)
    return cls is not Tensor and own is not None and own is not disabled_torch_function


def _overriding(arguments):
    """The classes to be asked of the arguments and of the items of lists: a class before those that it derives from, otherwise in
    the order of the arguments."""
    classes = []
    for argument in arguments:
        is_list = isinstance(argument, (list, tuple)) and not is_overriding(type(argument))
        for item in argument if is_list else (argument,):
            cls = type(item)
            if cls not in classes and is_overriding(cls):
                classes.insert(next((i for i, other in enumerate(classes) if issubclass(cls, other)), len(classes)), cls)
    return tuple(classes)


def _overridden(function, args, kwargs, classes):
    """What a mode or one of the classes says that the call is."""
    if _is_in_mode():
        mode = _modes.pop()
        _ask()
        try:
            return mode.__torch_function__(function, classes, args, kwargs)
        finally:
            _modes.append(mode)
            _ask()
    for cls in classes:
        result = cls.__torch_function__(function, classes, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation found for '{_name(function)}' on types that implement __torch_function__: {[*classes]}")


def _name(function):
    return f"{getattr(function, '__module__', None) or 'torch'}.{getattr(function, '__name__', function)}"


def _classes_of(args, kwargs):
    return _overriding((*args, *kwargs.values())) if _asks_classes else ()


def _call(function, /, *args, **kwargs):
    """The hook: the native module calls it with an operator and its arguments, and with the hook off."""
    classes = _classes_of(args, kwargs)
    if not any(map(_is_tensor_class, classes)) and not _is_in_mode():
        return function(*args, **kwargs)
    _ask()
    return _overridden(function, args, kwargs, classes)


def ask(function, /, *args, **kwargs):
    """What the native module does not take, it asks the classes; NotImplemented where none is to be asked."""
    classes = _classes_of(args, kwargs)
    if not classes:
        return NotImplemented
    _ask()
    return _overridden(function, args, kwargs, classes)


def overridable(function, takes_tensors=True, known_as=None):
    """A function or method in Python, which modes and classes may override; classes only where it takes tensors, and does not make
    them of Python's values. They are told of `known_as`, or else of what this gives."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        classes = _classes_of(args, kwargs) if takes_tensors else ()
        if all(map(_is_composed, classes)) and not _is_in_mode():
            return function(*args, **kwargs)
        return _overridden(known_as or call, args, kwargs, classes)

    return call


def _is_tensor_class(cls):
    from torch._tensor import Tensor

    return issubclass(cls, Tensor)


def _is_composed(cls):
    """Tensors that are made of others (sparse ones): what is written in Python works on them as it does on those."""
    from torch._sparse import SparseTensor

    return cls is SparseTensor


# What no class overrides, as in PyTorch: it makes objects, or says what they are.
_never = {"__new__", "__init_subclass__", "__torch_function__", "__setstate__", "as_subclass", "_make_subclass"}


def make_overridable(namespace):
    """The methods of a class, or the functions of a module, that are no operators."""
    own = namespace.__dict__
    for name, value in list(own.items()):
        if isinstance(value, (_types.FunctionType, _types.MethodDescriptorType)) and name not in _never and (name[0] != "_" or name.endswith("__")):
            setattr(namespace, name, overridable(value))


class _Told:
    """A native method of Tensor, which modes are asked for. The class itself has `own`, which they are told of."""

    def __init__(self, own):
        self.own, self.ask = own, overridable(own, known_as=own)

    def __get__(self, tensor, cls=None):
        if tensor is None or not _is_in_mode():
            return self.own.__get__(tensor, cls)
        return _types.MethodType(self.ask, tensor)


class _ToldAttribute:
    """The same of an attribute."""

    def __init__(self, own):
        self.own, self.__doc__ = own, own.__doc__

    def __get__(self, tensor, cls=None):
        if tensor is None or not _is_in_mode():
            return self.own.__get__(tensor, cls)
        return _overridden(self.own.__get__, (tensor,), {}, _classes_of((tensor,), {}))

    def __set__(self, tensor, value):
        if not _is_in_mode():
            return self.own.__set__(tensor, value)
        _overridden(self.own.__set__, (tensor, value), {}, _classes_of((tensor, value), {}))

    def __delete__(self, tensor):
        self.own.__delete__(tensor)


_told_slots = {"__len__", "__bool__", "__int__", "__float__", "__index__"}


def _untold(member):
    return member.own if isinstance(member, (_Told, _ToldAttribute)) else member


def _own_of_tensors():
    """What tensors have that no operator is: (name, member, whether it is an attribute)."""
    from torch._tensor import Tensor

    for name, member in {**vars(_atenon.Tensor), **vars(Tensor)}.items():
        own = _untold(member)
        is_attribute = isinstance(own, (property, _types.GetSetDescriptorType))
        is_method = isinstance(own, (_types.MethodDescriptorType, _types.WrapperDescriptorType))
        if (is_attribute or is_method) and (not name.startswith("_") or name in _told_slots):
            yield name, own, is_attribute


@functools.cache
def _tell_modes():
    """Modes are asked for that as well, from the first on."""
    from torch._tensor import Tensor

    for name, own, is_attribute in _own_of_tensors():
        if name not in _never:
            setattr(Tensor, name, _ToldAttribute(own) if is_attribute else _Told(own))


def watch(cls):
    """A class that derives from Tensor has been defined. It is asked for the native methods and for attributes as well: x.T is
    __torch_function__(Tensor.T.__get__, types, (x,))."""
    global _defined
    if not is_overriding(cls):
        return
    _defined = True
    _ask()
    for name, own, is_attribute in _own_of_tensors():
        if _untold(inspect.getattr_static(cls, name)) is not own or name.startswith("__") and name != "__len__":
            continue
        if is_attribute:
            setattr(cls, name, property(*(overridable(access, known_as=access) for access in (own.__get__, own.__set__))))
        else:
            setattr(cls, name, overridable(own, known_as=own))


def get_default_nowrap_functions():
    """Attributes whose tensors stay what they are, whatever the class of the tensor that has them."""
    from torch._tensor import Tensor

    return {Tensor.grad.__get__}


def as_class(result, cls):
    """A function's result as tensors of this class, in lists as well."""
    from torch._tensor import Tensor

    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        items = (as_class(item, cls) for item in result)
        return type(result)._make(items) if hasattr(result, "_make") else type(result)(items)
    return result


# --- What functions of users' own ask


def has_torch_function(relevant_args):
    return _is_in_mode() or _asks_classes and any(is_overriding(type(argument)) for argument in relevant_args)


def is_torch_function_enabled():
    return _asks_classes


def has_torch_function_unary(argument):
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments):
    return has_torch_function(arguments)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    return _overridden(public_api, args, kwargs, _overriding(relevant_args))


def wrap_torch_function(dispatcher):
    def wrap(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return call

    return wrap


def is_tensor_like(value):
    from torch._tensor import Tensor

    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def __getattr__(name):
    return _placeholder.attribute(__name__, name)
