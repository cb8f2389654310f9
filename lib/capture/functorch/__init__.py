# functorch, the older name of some of torch's functions: what model files still import from it.
from torch.func import *
