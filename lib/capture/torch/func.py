# torch.func: of the function transforms only the call with other parameters needs no differentiation.
import torch
from torch import _placeholder
from torch._vmap import vmap


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Calls a module with some parameters and buffers replaced, under all the names that they are tied to, for the time of the call."""
    dictionaries = parameter_and_buffer_dicts
    given = dict(dictionaries) if isinstance(dictionaries, dict) else {k: v for d in dictionaries for k, v in d.items()}
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    if tie_weights:
        named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
        values = {id(tensor): given[name] for name, tensor in named if name in given}
        if several := [name for name, tensor in named if name in given and values[id(tensor)] is not given[name]]:
            raise ValueError(f"functional_call got several values for what `{several[0]}` is tied to: give one, or tie_weights=False")
        given = {**{name: values[id(tensor)] for name, tensor in named if id(tensor) in values}, **given}
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


def stack_module_state(models):
    """Parameters, and buffers, of modules that are alike: by name, one tensor each with the modules in front."""
    if not models:
        raise RuntimeError("stack_module_state: expected at least one model, got 0")
    first = models[0]

    def stacked(named):
        columns = [dict(named(model)) for model in models]
        return {name: torch.stack([column[name].detach() for column in columns]) for name in columns[0]}

    return stacked(type(first).named_parameters), stacked(type(first).named_buffers)


for _name in ("functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"):
    globals()[_name] = _placeholder.refused(f"torch.func.{_name}", "no program differentiates; write the derivative out")
