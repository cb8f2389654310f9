# torch.optim: nothing is trained here; swa_utils has the averaged models that files keep beside the trained one.
from torch import _placeholder

__getattr__ = _placeholder.getter(__name__)
