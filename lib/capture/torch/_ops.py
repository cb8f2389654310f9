# torch._ops and torch.ops: namespaces of operators.
import os.path
import sys
import types

from torch import _names
from torch._operators import OpNamespace, OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket", "ops"]


class HigherOrderOperator:
    """Only its name is needed: libraries test for it."""


# What a library asks of its compiled extension while it is imported, of those that do not go on without one.
_ANSWERS = {"_torchaudio": {"cuda_version": None, "is_align_available": False}, "torchvision": {"_cuda_version": -1}}


class _Ops(types.ModuleType):
    __file__ = "torch/ops"

    def __init__(self):
        super().__init__("torch.ops")
        self.loaded_libraries = set()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = OpNamespace(name)
        for question, answer in _ANSWERS.get(name, {}).items():
            setattr(namespace, question, lambda answer=answer: answer)
        setattr(self, name, namespace)
        return namespace

    def load_library(self, path):
        # Of a library whose operators names.txt has, each raises when it is used. Others catch this and go on without theirs.
        folder, file = os.path.split(path)
        name = file.split(".")[0].removeprefix("lib")
        if name == "_C":  # torchvision/_C.so
            name = os.path.basename(folder)
        if name == "torchvision":
            from torch import _torchvision
        if name in _ANSWERS or _names.has_module(f"torch.ops.{name}"):
            return
        raise OSError(f"{path}: compiled extensions of PyTorch cannot be loaded into Atenon")

    def import_module(self, module):
        __import__(module)


ops = _Ops()
sys.modules["torch.ops"] = ops
