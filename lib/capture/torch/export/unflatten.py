# The exported program as a module with the model's own hierarchy.
from torch import _placeholder
from torch.export.exported_program import ExportedModule

__all__ = ["FlatArgsAdapter", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter:
    """Adapts arguments of another structure; a subclass says how."""

    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        raise NotImplementedError


class UnflattenedModule(ExportedModule):
    """State and submodules are where the model had them; calling it computes the whole program."""


def unflatten(module, flat_args_adapter=None):
    return UnflattenedModule(module)


__getattr__ = _placeholder.getter(__name__)
