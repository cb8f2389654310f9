# torch.cpu: the device that there is.
from torch._constants import answer, nothing

is_available = answer(True)
device_count = answer(1)
current_device = answer("cpu")
is_initialized = answer(True)
synchronize = set_device = answer()
stream = device = nothing

# A program is captured for no CPU in particular.
_is_avx2_supported = _is_avx512_supported = _is_avx512_bf16_supported = _is_vnni_supported = answer(False)
_is_amx_tile_supported = _is_amx_fp16_supported = answer(False)
