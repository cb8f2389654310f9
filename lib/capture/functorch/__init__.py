# functorch, the older name of some of torch's functions: what model files still import from it.
from torch.func import *


class FunctionalModule:
    """What make_functional gave: nothing is an instance of it."""


class FunctionalModuleWithBuffers:
    """The same with buffers."""
