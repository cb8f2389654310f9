# torch.serialization: state comes to a program by `atenon capture --weights`, not by code in the model file.
from torch._constants import answer, nothing
from torch._functional import load, save

DEFAULT_PROTOCOL = 2  # of pickle, what torch.save writes by default
safe_globals = skip_data = set_crc32_options = nothing
add_safe_globals = clear_safe_globals = answer()
get_safe_globals = get_unsafe_globals_in_checkpoint = answer([])
