# torch.export's names for dynamic dimensions: model files say with them which sizes may vary.
from torch import _placeholder
from torch.export.dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, dims

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims"]


def export(*args, **kwargs):
    raise NotImplementedError("torch.export.export is not supported inside a model file: atenon capture exports the model")


__getattr__ = _placeholder.getter(__name__)
