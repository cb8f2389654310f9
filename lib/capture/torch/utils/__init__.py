# torch.utils; its parts are imported when asked for.
from torch import _placeholder

__getattr__ = _placeholder.getter(__name__)
