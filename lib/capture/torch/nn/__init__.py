# torch.nn: modules, functions on tensors, initialisation. Modules live under torch.nn.modules, as in PyTorch.
from torch.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from torch.nn import functional, init
from torch.nn.modules import *
from torch.nn import modules, utils
from torch.nn.parallel import DataParallel


def factory_kwargs(kwargs):
    """What of a constructor's keywords makes tensors: device, dtype, memory_format."""
    kwargs = dict(kwargs or {})
    made = dict(kwargs.pop("factory_kwargs", {}))
    for name in ("device", "dtype", "memory_format"):
        if name in kwargs:
            made[name] = kwargs.pop(name)
    if kwargs:
        raise TypeError(f"unexpected kwargs {list(kwargs)}")
    return made
