# Layers of torch.nn in small networks.
import torch
import torch.nn.functional as F

from cases import by_size, case, ints, rand
from torch import nn
from torch.export import Dim

batch = Dim("batch", min=1, max=64)


@case(rand(2, 4), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 4), 5))
class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.1), nn.Linear(8, 2))

    def forward(self, x):
        return self.body(x)


@case(rand(2, 3, 8, 8), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 3, 8, 8), 3))
class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        return self.body(x)


@case(rand(2, 2, 4, 4))
class Upsamples(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.transposed = nn.ConvTranspose2d(2, 3, 2, stride=2)

    def forward(self, x):
        return self.transposed(self.up(x)), F.interpolate(x, size=(6, 6), mode="bilinear", align_corners=False)


@case(ints(2, 5, high=7), shapes={"tokens": {0: batch}}, others=[(ints(3, 5, high=7),)])
class Embeds(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4, padding_idx=0)
        self.position = nn.Parameter(torch.rand(5, 4))

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position
        mask = (tokens != 0).unsqueeze(-1)
        return (x * mask).sum(1) / mask.sum(1).clamp(min=1)


@case(rand(2, 5, 8), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 5, 8), 3))
class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (t.reshape(*t.shape[:2], 2, 4).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2)) + x


@case(rand(2, 4, 6))
class Normalizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.group, self.instance, self.rms = nn.GroupNorm(2, 4), nn.InstanceNorm1d(4), nn.RMSNorm(6)

    def forward(self, x):
        return self.group(x), self.instance(x), self.rms(x), F.normalize(x, dim=-1)


@case(rand(2, 3))
class Activates(nn.Module):
    def __init__(self):
        super().__init__()
        self.functions = nn.ModuleList([nn.ReLU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.ELU(), nn.LeakyReLU(0.1), nn.Hardswish(),
                                        nn.Softmax(-1), nn.LogSoftmax(-1), nn.PReLU(), nn.Softplus(), nn.Hardtanh()])

    def forward(self, x):
        return [f(x) for f in self.functions]


@case(rand(2, 5, 3))
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.gru = nn.GRU(3, 4, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return y, h, c, self.gru(x)[0]


@case(rand(4, 3), ints(4, high=3))
def losses(self, x, target):
    return F.cross_entropy(x, target), F.mse_loss(x, x * 2), F.l1_loss(x, x + 1, reduction="sum"), F.nll_loss(F.log_softmax(x, 1), target)


@case(rand(1, 2, 6))
class Convolves1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3, padding="same", dilation=2)
        self.pool = nn.AvgPool1d(2)

    def forward(self, x):
        return self.pool(self.conv(F.pad(x, (1, 1), mode="reflect")))


@case(rand(2, 3))
class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.layer.requires_grad_(False)
        self.register_buffer("mean", torch.rand(3))
        self.register_buffer("std", torch.rand(3) + 1, persistent=False)

    def forward(self, x):
        return self.layer((x - self.mean) / self.std)


@case(rand(2, 3, 5, 5))
class SpectralNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.hook = nn.utils.spectral_norm(nn.Conv2d(3, 4, 3))
        self.transposed = nn.utils.spectral_norm(nn.ConvTranspose2d(4, 2, 2))
        self.removed = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Conv2d(2, 2, 1)))

    def forward(self, x):
        return self.removed(self.transposed(self.hook(x)))


@case(rand(1, 2, 9, 11))
def antialiased(self, x):
    small = [F.interpolate(x, size=size, mode=mode, antialias=True) for mode in ("bilinear", "bicubic") for size in ((2, 3), (5, 13))]
    return small + [F.interpolate(x, scale_factor=0.4, mode="bicubic", antialias=True, align_corners=True)]


@case(rand(4, 4))
class AutocastInside(nn.Module):
    """What operators that are made of others give, of which only some are cast."""

    def __init__(self):
        super().__init__()
        self.bilinear = nn.Bilinear(4, 4, 3)

    @torch.autocast("cpu", torch.bfloat16)
    def forward(self, x):
        low, m = x.bfloat16(), x + 4 * torch.eye(4)
        products = [torch.tensordot(x, x, 1), torch.chain_matmul(x, x, x), *(torch.linalg.matrix_power(m, n) for n in (-2, -1, 0, 1, 3))]
        padded = [F.pad(low, (1, 2), mode=mode) for mode in ("reflect", "replicate", "constant")]
        padded += [nn.ReflectionPad2d(1)(low[None]), nn.ReplicationPad3d(1)(low[None, None])]
        sums = [torch.einsum(e, x, x) for e in ("ij,kl->ijkl", "bi,bj->bij", "ij,ij->ij", "ij,ij", "...i,...i->...", "ij,jk")]
        results = [*products, *padded, *sums, self.bilinear(x, x), F.cosine_similarity(x, low), F.cosine_similarity(low[:2], x[2:])]
        return [r.float() for r in results], " ".join(str(r.dtype) for r in results)


@case(rand(2, 3), rand(2, 3), rand(2, 3) + 2)
def losses_reduced(self, x, y, weight):
    losses = [f(x, y, weight=weight, reduction=reduction) for f in (F.mse_loss, F.l1_loss, F.huber_loss) for reduction in ("none", "mean", "sum")]
    for f in (F.multilabel_soft_margin_loss, F.mse_loss):
        losses += f(x, y, size_average=False), f(x, y, reduce=False), f(x, y, size_average=True, reduction="sum")
    return losses + [F.mse_loss(x[:1], y, weight=weight[:1])]


@case(rand(3, 4))
def normalizes_into(self, x):
    y = x + 1
    F.normalize(y, dim=0, out=y)
    return y, F.normalize(x, p=1, out=y.new_empty(0))


@case(rand(2, 3, 7, 9), rand(3, 6, 7, 8), rand(2, 3, 2).abs(), rand(1, 3, 3).abs(), shapes={"x": {2: Dim("h", min=5, max=64)}, "z": None, "s": None, "t": None},
      others=[(rand(2, 3, 8, 9), rand(3, 6, 7, 8), rand(2, 3, 2).abs(), rand(1, 3, 3).abs())])
def fractional_windows(self, x, z, s, t):
    planes = F.fractional_max_pool2d(x, 2, 3, return_indices=True, _random_samples=s), F.fractional_max_pool2d(x[0], (3, 2), (2, 1), _random_samples=s[:1])
    return *planes, F.fractional_max_pool3d(z, (2, 3, 1), output_ratio=0.5, return_indices=True, _random_samples=t)
