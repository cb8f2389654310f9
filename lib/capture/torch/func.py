# torch.func: of the function transforms only the call with other parameters needs no differentiation.
from torch import _placeholder
from torch._vmap import vmap


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Calls a module with some parameters and buffers replaced for the time of the call."""
    dictionaries = parameter_and_buffer_dicts
    given = dict(dictionaries) if isinstance(dictionaries, dict) else {k: v for d in dictionaries for k, v in d.items()}
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    replaced = []
    try:
        for path, value in given.items():
            owner_path, _, name = path.rpartition(".")
            owner = module.get_submodule(owner_path)
            entries = owner._parameters if name in owner._parameters else owner._buffers
            replaced.append((entries, name, entries[name]))
            entries[name] = value
        return module(*args, **(kwargs or {}))
    finally:
        for entries, name, value in reversed(replaced):
            entries[name] = value


__getattr__ = _placeholder.getter(__name__)
