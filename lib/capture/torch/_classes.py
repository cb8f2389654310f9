# torch.classes: custom classes of compiled extensions, of which there are none; see _custom_classes.py.
import sys
import types

from torch._custom_classes import ClassNamespace


class _Classes(types.ModuleType):
    loaded_libraries = frozenset()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return ClassNamespace(name)

    def load_library(self, path):
        raise OSError(f"{path}: compiled extensions of PyTorch cannot be loaded into Atenon")


classes = _Classes("torch.classes")
sys.modules["torch.classes"] = classes
