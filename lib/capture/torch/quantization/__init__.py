# torch.quantization: the older name of torch.ao.quantization.
from torch import _placeholder
from torch.ao.quantization import DeQuantStub, QuantStub, QuantWrapper

__getattr__ = _placeholder.getter("torch.ao.quantization")
