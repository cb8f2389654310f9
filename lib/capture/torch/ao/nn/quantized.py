# torch.ao.nn.quantized: the newer name of torch.nn.quantized.
from torch import _placeholder
from torch.nn.quantized import FloatFunctional

__getattr__ = _placeholder.getter("torch.nn.quantized")
