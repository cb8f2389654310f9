# Parametrisations: an attribute computed from other parameters whenever it is read.
import torch
from torch.nn.modules.container import ModuleDict, ModuleList
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "type_before_parametrizations"]


class cached:
    """Reads inside compute anew each time: the values are the same, and a graph shares equal nodes later."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False


class ParametrizationList(ModuleList):
    """The originals of one attribute and the modules applied to them in turn."""

    def __init__(self, modules, original, unsafe=False):
        super().__init__(modules)
        self.unsafe = unsafe
        with torch.no_grad():
            new = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    new = module.right_inverse(new)
        self.is_tensor = isinstance(new, torch.Tensor)
        if self.is_tensor:
            self._register("original", original, new)
        else:
            self.ntensors = len(new)
            for i, part in enumerate(new):
                self._register(f"original{i}", original, part)

    def _register(self, name, original, value):
        if isinstance(original, Parameter):
            self.register_parameter(name, Parameter(value.data, original.requires_grad))
        else:
            self.register_buffer(name, value)

    def right_inverse(self, value):
        with torch.no_grad():
            for module in reversed(list(self)):
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
        return self.parametrizations[name]()

    def write(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        module.parametrizations[tensor_name].append(parametrization)
        return module
    original = getattr(module, tensor_name)
    applied = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        # A class of its own, so that the property is on this object only.
        cls = type(module)
        module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), {"__module__": cls.__module__})
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _attribute(tensor_name))
    module.parametrizations[tensor_name] = applied
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
    original = next(iter(applied._parameters.values()), None)
    with torch.no_grad():
        value = getattr(module, tensor_name) if leave_parametrized else applied.original
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if original is not None:
        module.register_parameter(tensor_name, Parameter(value.data, original.requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    return type(module).__bases__[0] if is_parametrized(module) else type(module)
