# torch._export: the names that scripts of torch.export reach into.
from torch import _placeholder

__getattr__ = _placeholder.getter(__name__)
