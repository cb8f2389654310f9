# torch.nn: modules, functions on tensors, initialisation. Modules live under torch.nn.modules, as in PyTorch.
import sys

from torch._tensor import Tensor
from torch.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from torch.nn import functional, init
from torch.nn.modules import *
from torch.nn import modules, utils
from torch.nn.parallel import DataParallel

# PyTorch's files of layers and of functions import Tensor, and model files import it from there.
for _name, _file in list(sys.modules.items()):
    if _name.startswith(("torch.nn.modules.", "torch.nn.functional", "torch.nn.init", "torch.nn.utils.")):
        vars(_file).setdefault("Tensor", Tensor)


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
