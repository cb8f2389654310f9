# Parameters and buffers: tensors that a module registers when they are assigned to it.
import collections

import _atenon

from torch import _utils, overrides
from torch._sparse import SparseTensor
from torch._tensor import Tensor, copy_attributes

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _ParameterMeta(type(Tensor)):
    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    __module__ = "torch.nn.parameter"
    __torch_function__ = overrides.disabled_torch_function

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = _atenon.empty((0,), dtype=None)
        if not isinstance(data, Tensor):
            raise TypeError(f"a Parameter is made of a tensor, not of {type(data).__name__}")
        if type(data) is SparseTensor or overrides.is_overriding(type(data)):  # stays of its class
            made = data.detach().requires_grad_(requires_grad)
            made._is_param = True
            return made
        return _atenon.make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copied
        copy_attributes(self, copied, memo)
        return copied

    def __reduce_ex__(self, protocol):
        made = self.data, self.requires_grad, collections.OrderedDict()
        state = self.__getstate__()
        return (_utils._rebuild_parameter_with_state, (*made, state)) if state else (_utils._rebuild_parameter, made)

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


class _BufferMeta(type(Tensor)):
    def __instancecheck__(cls, instance):
        if cls is Buffer:
            return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)
        return type.__instancecheck__(cls, instance)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that is registered as a buffer when assigned; the object itself stays a plain Tensor."""

    __module__ = "torch.nn.parameter"
    __torch_function__ = overrides.disabled_torch_function

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = _atenon.empty((0,), dtype=None)
        made = data.detach().requires_grad_(data.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


class UninitializedTensorMixin:
    """What a lazy module has for a tensor until it has seen an input: nothing to compute with."""

    @property
    def shape(self):
        raise RuntimeError("this parameter has no shape yet: its lazy module finds it from the first input, so call forward() before")

    def materialize(self, shape, device=None, dtype=None):
        self.data = _atenon.empty(tuple(shape), dtype=dtype)
        self.__class__ = self.cls_to_become

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad,)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    __module__ = "torch.nn.parameter"
    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return _atenon.make_subclass(cls, _atenon.empty((0,), dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    __module__ = "torch.nn.parameter"
    __torch_function__ = overrides.disabled_torch_function
    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None):
        return _atenon.make_subclass(cls, _atenon.empty((0,), dtype=dtype), requires_grad)


def is_lazy(parameter):
    return isinstance(parameter, UninitializedTensorMixin)
