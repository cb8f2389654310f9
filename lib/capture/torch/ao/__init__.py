# torch.ao: of its quantisation only what a float model holds of it.
from torch import _placeholder

__getattr__ = _placeholder.getter(__name__)
