# torch.amp: autocast, which is torch._modes' business, and the scaler of gradients that training scripts make.
from torch._constants import unchanged
from torch._modes import autocast
from torch._scaler import GradScaler

custom_fwd = custom_bwd = unchanged


def is_autocast_available(device_type):
    return device_type == "cpu"
