# torch.functional: older path of functions that torch has too.
from torch import _placeholder
from torch._functional import *

__getattr__ = _placeholder.getter(__name__)
