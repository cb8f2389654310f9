# torch.serialization: state comes to a program by `atenon capture --weights`, not by code in the model file.
from torch import _placeholder
from torch._constants import answer, nothing
from torch._functional import load, save

safe_globals = skip_data = set_crc32_options = nothing
add_safe_globals = clear_safe_globals = answer()
get_safe_globals = get_unsafe_globals_in_checkpoint = answer([])

__getattr__ = _placeholder.getter(__name__)
