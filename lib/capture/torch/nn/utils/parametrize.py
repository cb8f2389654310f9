# Parametrisations: an attribute computed from other parameters whenever it is read.
#
# A parametrised object has a class of its own, with a property for each such attribute. It is made anew when they change, so that
# copies, which share it until then, do not.
import torch
from torch.nn.modules.container import ModuleDict, ModuleList
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]

_cache = {}  # (module's id, name) -> value, while a cached() is open
_open_caches = 0


class cached:
    """Inside, each attribute is computed once."""

    def __enter__(self):
        global _open_caches
        _open_caches += 1

    def __exit__(self, *exception):
        global _open_caches
        _open_caches -= 1
        if not _open_caches:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The originals of one attribute and the modules applied to them in turn."""

    def __init__(self, modules, original, unsafe=False):
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        sizes, dtype = original.shape, original.dtype
        with torch.no_grad():
            new = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        self.is_tensor = isinstance(new, torch.Tensor)
        if self.is_tensor:
            if new is not original and original.dtype == new.dtype:
                original.data = new
            self._register("original", original, original if original.dtype == new.dtype else new)
        else:
            self.ntensors = len(new)
            for i, part in enumerate(new):
                self._register(f"original{i}", original, part)
        if not unsafe:
            self._check(sizes, dtype)

    def _register(self, name, original, value):
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(original, Parameter):
            self.register_parameter(name, Parameter(value, original.requires_grad))
        else:
            self.register_buffer(name, value)

    def _check(self, sizes, dtype):
        with torch.no_grad():
            result = self()
        if not isinstance(result, torch.Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
        if result.dtype != dtype:
            raise ValueError("Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is enabled.\n"
                             f"unparametrized dtype: {dtype}\nparametrized dtype: {result.dtype}")
        if result.shape != sizes:
            raise ValueError("Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\n"
                             f"unparametrized shape: {sizes}\nparametrized shape: {result.shape}")

    def right_inverse(self, value):
        with torch.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            parts = {"original": value} if self.is_tensor else {f"original{i}": v for i, v in enumerate(value)}
            for name, part in parts.items():
                getattr(self, name).data = part

    def forward(self):
        first, *rest = self
        if self.is_tensor:
            x = first(self.original)
        else:
            x = first(*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in rest:
            x = module(x)
        return x


def _attribute(name):
    def read(self):
        if not _open_caches:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def write(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def _renew_class(module, plain):
    names = list(module._modules.get("parametrizations", ()))
    attributes = {name: _attribute(name) for name in names}
    module.__class__ = type(f"Parametrized{plain.__name__}", (plain,), {"__module__": plain.__module__, **attributes}) if names else plain


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        applied = module.parametrizations[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            if not isinstance(after, torch.Tensor) or after.dtype != before.dtype or after.shape != before.shape:
                raise ValueError("Registering a parametrization may not change the dtype or shape of the tensor, unless the `unsafe` flag is enabled.")
        applied.append(parametrization)
        applied.unsafe |= unsafe
        return module
    if tensor_name not in module._buffers and tensor_name not in module._parameters:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    plain = type_before_parametrizations(module)
    applied = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = applied
    _renew_class(module, plain)
    return module


def is_parametrized(module, tensor_name=None):
    parametrizations = module._modules.get("parametrizations")
    if parametrizations is None:
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    applied = module.parametrizations[tensor_name]
    if not applied.is_tensor and not leave_parametrized:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors.")
    with torch.no_grad():
        value = getattr(module, tensor_name) if leave_parametrized else applied.original
    plain = type_before_parametrizations(module)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        delattr(module, "parametrizations")
    _renew_class(module, plain)
    first = next(iter(applied._parameters.values()), None)
    if first is None:
        module.register_buffer(tensor_name, value)
    elif applied.is_tensor and first.dtype == value.dtype:
        if value is not first:
            first.data = value
        module.register_parameter(tensor_name, first)
    else:
        module.register_parameter(tensor_name, Parameter(value, first.requires_grad))
    return module


def type_before_parametrizations(module):
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives one module the parametrisations of another, and their originals."""
    if not is_parametrized(from_module):
        return to_module
    for name in [tensor_name] if tensor_name is not None else list(from_module.parametrizations):
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        target = to_module.parametrizations[name]
        for parameter, value in source._parameters.items():
            setattr(target, parameter, value)
    return to_module
