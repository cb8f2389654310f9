# torch._ops and torch.ops: namespaces of operators.
import sys
import types

from torch._operators import OpNamespace, OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket", "ops"]


class HigherOrderOperator:
    """Only its name is needed: libraries test for it."""


class _Ops(types.ModuleType):
    __file__ = "torch/ops"

    def __init__(self):
        super().__init__("torch.ops")
        self.loaded_libraries = set()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = OpNamespace(name)
        setattr(self, name, namespace)
        return namespace

    def load_library(self, path):
        # Libraries with compiled operators catch this and go on without them.
        raise OSError(f"{path}: compiled extensions of PyTorch cannot be loaded into Atenon")

    def import_module(self, module):
        __import__(module)


ops = _Ops()
sys.modules["torch.ops"] = ops
