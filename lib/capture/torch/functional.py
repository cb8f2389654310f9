# torch.functional: older path of functions that torch has too, and of what PyTorch's file imports.
import torch.nn.functional as F
from torch._functional import *
