# torch.autograd.Variable, how tensors were written before PyTorch 0.4: it gives its argument's tensor, detached.
import torch


class VariableMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Tensor)


class Variable(metaclass=VariableMeta):
    def __new__(cls, data=None, requires_grad=False, volatile=None):
        return (torch.Tensor() if data is None else data.detach()).requires_grad_(requires_grad)
