# torch.classes: custom classes of compiled extensions, of which there are none.
import sys
import types


class _Classes(types.ModuleType):
    loaded_libraries = frozenset()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"torch.classes.{name} needs a compiled extension of PyTorch, which Atenon cannot load")

    def load_library(self, path):
        raise OSError(f"{path}: compiled extensions of PyTorch cannot be loaded into Atenon")


classes = _Classes("torch.classes")
sys.modules["torch.classes"] = classes
