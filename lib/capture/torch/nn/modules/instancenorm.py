# Instance normalisation.
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None, *,
                 bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input):
        self._check_input_dim(input)
        batched = input if input.dim() == self._rank else input.unsqueeze(0)
        normalized = F.instance_norm(batched, self.running_mean, self.running_var, self.weight, self.bias,
                                     self.training or not self.track_running_stats,
                                     self.momentum if self.momentum is not None else 0.0, self.eps)
        return normalized if batched is input else normalized.squeeze(0)

    def _check_input_dim(self, input):
        self._check_rank(input, self._rank - 1, self._rank)


class InstanceNorm1d(_InstanceNorm):
    _rank = 3


class InstanceNorm2d(_InstanceNorm):
    _rank = 4


class InstanceNorm3d(_InstanceNorm):
    _rank = 5
