# torch.functional: older path of functions that torch has too.
from torch._functional import *
