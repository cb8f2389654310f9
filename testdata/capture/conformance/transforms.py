# Transformations of functions and modules: torch.vmap, autocast, parametrisations, hooks that see keywords.
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import and_masks, create_block_mask, create_mask, flex_attention
from torch.nn.utils import parametrizations, parametrize

from cases import by_size, case, ints, rand

BATCH = {0: torch.export.Dim("batch", max=64)}


# --- vmap


@case(rand(3, 4), rand(3, 4), shapes=(BATCH, BATCH), others=[(rand(5, 4), rand(5, 4))])
def vmap_dot(self, x, y):
    return torch.vmap(torch.dot)(x, y)


@case(rand(3, 4), rand(4), others=[])
def vmap_one_side(self, x, y):
    return torch.vmap(lambda a, b: a * b + b.sum(), in_dims=(0, None))(x, y)


@case(rand(3, 4), rand(5, 3))
def vmap_dims(self, x, y):
    return torch.vmap(lambda a, b: a.unsqueeze(0) + b.unsqueeze(1), in_dims=(0, 1), out_dims=1)(x, y)


@case(rand(3, 4))
def vmap_nested(self, x):
    rows = torch.arange(3)
    columns = torch.arange(4)
    mask = torch.vmap(lambda i: torch.vmap(lambda j: i >= j)(columns))(rows)
    return torch.where(mask, x, torch.zeros(()))


@case(rand(3, 4), shapes=(BATCH,), others=by_size(lambda n: rand(n, 4), 1, 6))
class VmapLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        return torch.vmap(self.linear)(x), torch.func.vmap(lambda v: F.softmax(self.linear(v), 0).sum(-1))(x)


@case(rand(4, 6), ints(4, 2))
def vmap_index(self, x, index):
    return torch.vmap(lambda row, i: row[i])(x, index), torch.vmap(lambda row, i: row.gather(0, i))(x, index)


@case({"a": rand(3, 2), "b": rand(3)}, rand(2))
def vmap_trees(self, tree, w):
    return torch.vmap(lambda t, v: {"y": t["a"] * v, "z": (t["b"],)}, in_dims=({"a": 0, "b": 0}, None))(tree, w)


@case(rand(2, 3, 4))
def vmap_matrices(self, x):
    return torch.vmap(lambda m: (m @ m.t(), m.mean(0), m.argmax(), m.reshape(-1).cumsum(0)), out_dims=(0, 0, 0, 1))(x)


@case(rand(3, 2))
def vmap_in_place(self, x):
    def f(row):
        y = row.clone()
        y[0] = 1.0
        y.mul_(2)
        return y

    return torch.vmap(f)(x)


# --- autocast


@case(ints(3, 4) / 2, shapes=(BATCH,), others=by_size(lambda n: ints(n, 4) / 4, 2, 7))
class AutocastLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        with torch.no_grad():  # nothing is rounded
            self.linear.weight.copy_(ints(4, 4, high=5) / 4 - 0.5)
            self.linear.bias.zero_()
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x).relu()
            z = y + x
            kind = str(self.norm(y).dtype)
            with torch.autocast("cpu", enabled=False):
                w = self.linear(z.float())
        return y, z, w, self.linear(x), kind


@case(rand(1, 3, 8, 8))
class AutocastConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 5))

    @torch.autocast("cpu")
    def forward(self, x):
        return self.net(x)


@case(rand(2, 3, 4), rand(2, 4, 3))
def autocast_products(self, x, y):
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        a = x @ y
        b = torch.bmm(x, y.double().float())
        c = torch.cat([a, x[..., :3]], 1)
        d = torch.einsum("bij,bjk->bik", x, y)
        e = F.mse_loss(a, b)
        f = a.softmax(-1) * 2 + a.sum()
        g = str(torch.addmm(x[0, :, :3], x[0], y[0]).dtype)
        return a, b, c, d, e, f, g, torch.is_autocast_enabled("cpu"), str(torch.get_autocast_dtype("cpu"))


@case(rand(1, 2, 4, 8), rand(1, 2, 4, 8), rand(1, 2, 4, 8))
def autocast_attention(self, q, k, v):
    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        return F.scaled_dot_product_attention(q, k, v).dtype == torch.bfloat16, torch.matmul(q, k.transpose(-1, -2)).exp()


@case(rand(3, 4))
def autocast_elsewhere(self, x):
    with torch.autocast("cuda", dtype=torch.float16), torch.cuda.amp.autocast():
        return x @ x.t()


# --- parametrisations


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("by", torch.tensor(0.5))

    def forward(self, x):
        return x * self.by


@case(rand(2, 3))
class SymmetricLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        parametrize.register_parametrization(self.linear, "weight", Symmetric())
        parametrize.register_parametrization(self.linear, "weight", Scaled())

    def forward(self, x):
        with parametrize.cached():
            return self.linear(x), self.linear.weight


@case(rand(2, 3, 5))
class WeightNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = parametrizations.weight_norm(nn.Conv1d(3, 4, 2))
        self.linear = parametrizations.weight_norm(nn.Linear(4, 2), dim=None)

    def forward(self, x):
        return self.linear(self.conv(x).mean(-1))


@case(rand(2, 4))
class SpectralNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        with torch.no_grad():
            parametrizations.spectral_norm(self.linear)
            norm = self.linear.parametrizations.weight[0]
            norm._u.copy_(torch.ones(3) / 3**0.5)  # drawn from a normal distribution, whose last bits may differ
            norm._v.copy_(torch.ones(4) / 2)

    def forward(self, x):
        return self.linear(x)


@case(rand(2, 4))
class Removed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        parametrize.register_parametrization(self.linear, "weight", Symmetric())
        parametrize.remove_parametrizations(self.linear, "weight")

    def forward(self, x):
        return self.linear(x), parametrize.is_parametrized(self.linear)


# --- hooks


class Keyworded(nn.Module):
    def forward(self, x, scale=1):
        return x * scale


@case(rand(2, 3))
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.inner = Keyworded()
        self.linear.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        self.linear.register_forward_hook(lambda module, args, output: output + args[0])
        self.inner.register_forward_pre_hook(lambda module, args, kwargs: (args, {**kwargs, "scale": 3}), with_kwargs=True)
        self.inner.register_forward_hook(lambda module, args, kwargs, output: output * kwargs["scale"], with_kwargs=True)
        self.inner.register_forward_hook(lambda module, args, output: output - 1, prepend=True)
        removed = self.linear.register_forward_hook(lambda module, args, output: output * 0)
        removed.remove()

    def forward(self, x):
        return self.inner(self.linear(x), scale=2)


@case(rand(2, 3))
class HookCollects(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        for module in self.net:
            module.register_forward_hook(lambda module, args, output: setattr(module, "last", output))

    def forward(self, x):
        y = self.net(x)
        return y, self.net[0].last, self.net[1].last.sum()


# --- Attention given by functions of a place

LENGTHS = {0: torch.export.Dim("batch", max=64), 2: torch.export.Dim("length", max=64)}


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


@case(rand(2, 4, 5, 8), rand(2, 2, 5, 8))
def flex_mask(self, q, kv):
    near = lambda b, h, q_idx, kv_idx: (q_idx - kv_idx <= 2 + h) & (q_idx > b)
    block_mask = create_block_mask(and_masks(causal, near), 2, 4, 5, 5, device=q.device)
    return flex_attention(q, kv, kv, block_mask=block_mask, enable_gqa=True), create_mask(near, 1, 2, 3, 4)


@case(rand(2, 4, 5, 8), shapes=(LENGTHS,), others=by_size(lambda n: rand(2, 4, n, 8), 2, 7))
class FlexScores(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("slopes", 0.5 ** torch.arange(1, 5))

    def forward(self, x):
        block_mask = create_block_mask(causal, None, None, x.shape[2], x.shape[2])
        return torch.compile(flex_attention)(x, x, x, lambda score, b, h, q_idx, kv_idx: score + self.slopes[h] * (kv_idx - q_idx), block_mask)
