# torch.cpu: the device that there is.
from torch._constants import answer, nothing

is_available = answer(True)
device_count = answer(1)
current_device = answer("cpu")
is_initialized = answer(True)
synchronize = set_device = answer()
stream = device = nothing
