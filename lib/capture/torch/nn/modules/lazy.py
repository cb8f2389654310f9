# Layers that learn the number of their inputs from the first input that they see.
#
# Until then such a layer holds what its constructor was given; then it becomes the layer that it stands for, in place. The
# parameters are drawn at that moment, as PyTorch does, so the input must be a real one: under capture nothing is drawn.
import torch
from torch.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from torch.nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from torch.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from torch.nn.modules.linear import Linear
from torch.nn.modules.module import Module
from torch.nn.parameter import UninitializedParameter, is_lazy

__all__ = ["LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d",
           "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
           "LazyLinear", "LazyModuleMixin"]


class LazyModuleMixin:
    """Of a module whose initialize_parameters() makes what it could not make before it saw its first inputs."""

    cls_to_become = None
    _waits = True

    def __call__(self, *args, **kwargs):
        if self._waits:
            if torch.compiler.is_exporting():
                raise RuntimeError(f"{type(self).__name__} has seen no input yet, so it has no parameters: call the model once on an "
                                   "example before it is captured")
            self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise RuntimeError(f"initialize_parameters() of {type(self).__name__} has left parameters without a shape")
            self._waits = False
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become
        return Module.__call__(self, *args, **kwargs)

    def has_uninitialized_params(self):
        return any(is_lazy(tensor) for tensor in [*self._parameters.values(), *self._buffers.values()])

    def initialize_parameters(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no initialize_parameters()")


class _LazyLayer(LazyModuleMixin):
    axis = -1  # of the input, whose size is looked for

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        self._given = args, kwargs
        self.weight = UninitializedParameter()

    def initialize_parameters(self, input, *_, **__):
        args, kwargs = self._given
        made = self.cls_to_become(input.shape[self.axis], *args, **kwargs)
        del self._given
        mine = {name: value for name, value in self.__dict__.items() if "_hooks" in name or name == "training"}
        self.__dict__.update({**made.__dict__, **mine})

    def extra_repr(self):
        return "not initialized"


class LazyLinear(_LazyLayer, Linear):
    cls_to_become = Linear


class LazyConv1d(_LazyLayer, Conv1d):
    cls_to_become = Conv1d
    axis = -2


class LazyConv2d(_LazyLayer, Conv2d):
    cls_to_become = Conv2d
    axis = -3


class LazyConv3d(_LazyLayer, Conv3d):
    cls_to_become = Conv3d
    axis = -4


class LazyConvTranspose1d(_LazyLayer, ConvTranspose1d):
    cls_to_become = ConvTranspose1d
    axis = -2


class LazyConvTranspose2d(_LazyLayer, ConvTranspose2d):
    cls_to_become = ConvTranspose2d
    axis = -3


class LazyConvTranspose3d(_LazyLayer, ConvTranspose3d):
    cls_to_become = ConvTranspose3d
    axis = -4


class LazyBatchNorm1d(_LazyLayer, BatchNorm1d):
    cls_to_become = BatchNorm1d
    axis = 1


class LazyBatchNorm2d(_LazyLayer, BatchNorm2d):
    cls_to_become = BatchNorm2d
    axis = 1


class LazyBatchNorm3d(_LazyLayer, BatchNorm3d):
    cls_to_become = BatchNorm3d
    axis = 1


class _LazyInstanceNorm(_LazyLayer):
    axis = 1

    # Lazy ones keep statistics and are affine unless told otherwise, as InstanceNorm is not.
    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, **kwargs):
        super().__init__(eps, momentum, affine, track_running_stats, **kwargs)


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    cls_to_become = InstanceNorm3d
