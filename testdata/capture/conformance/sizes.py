# Sizes that people compute with: derived dimensions, relations between inputs, windows, paddings, masks.
import torch
import torch.nn.functional as F

from cases import by_size, case, ints, rand
from torch import nn
from torch.export import Dim

batch = Dim("batch", max=64)
seq = Dim("seq", max=64)
dim = Dim("dim", min=3, max=40)
A, D = Dim.AUTO, Dim.DYNAMIC


@case(rand(2, 3), shapes={"x": (batch, seq)}, others=[(rand(4, 3),), (rand(3, 5),)])
def sizes_as_outputs(self, x):
    z, y = x.size()
    return z + y + x[0], z, (z * y, z // 2)


@case(rand(5), rand(6), shapes={"x": {0: dim}, "y": {0: dim + 1}}, others=[(rand(4), rand(5))])
def derived_plus_one(self, x, y):
    return x + y[1:]


@case(rand(5), rand(11), shapes={"x": {0: dim}, "y": {0: dim * 2 + 1}}, others=[(rand(4), rand(9))])
def derived_nested(self, x, y):
    return x + y[1::2]


@case(rand(6), rand(11), shapes={"z": {0: dim}, "y": {0: dim * 2 - 1}}, others=[(rand(5), rand(9))])
def derived_minus(self, z, y):
    return z[1:] + y[1::2]


@case(rand(4), rand(13), rand(4), shapes={"x": {0: dim}, "y": {0: 3 * dim + 1}, "z": {0: A}}, others=[(rand(5), rand(16), rand(5))])
def derived_and_automatic(self, x, y, z):
    return x + y[1::3] + z


@case(rand(6, 4), rand(6, 4), shapes={"x": (A, A), "y": (D, A)}, others=[(rand(8, 5), rand(8, 5))])
def automatic_pairs(self, x, y):
    return x + y


@case(rand(5), rand(4), rand(4), rand(4, 4), rand(16), shapes={"u": (D,), "w": (D,), "x": (D,), "y": (D, D), "z": (D,)}, others=[(rand(6), rand(5), rand(5), rand(7, 8), rand(56))])
def relations_found_out(self, u, w, x, y, z):
    return u[1:] + w + x, y.flatten() + z


@case(rand(3, 4), shapes={"x": (D, D)}, others=[(rand(5, 8),), (rand(4, 3),)])
def view_by_divisor(self, x):
    return x.view(x.shape[0] - 1, -1)


@case(rand(4, 4), rand(5, 4), shapes={"x": (A, A), "y": (A, A)}, others=[(rand(6, 3), rand(7, 4))])
def asserted_relation(self, x, y):
    assert y.shape[1] == 4
    assert x.shape[0] == y.shape[0] - 1
    return x * 2, y * 2


@case(rand(2, 2, 3, 4), rand(2, 2, 3, 3), shapes={"mask": {3: Dim("m", max=64)}, "fill": {3: Dim("n", max=64)}}, others=[(rand(2, 2, 3, 6), rand(2, 2, 3, 6)), (rand(2, 2, 3, 6), rand(2, 2, 3, 2))])
def slice_filled_by_other_size(self, mask, fill):
    mask = mask.clone()
    n = fill.shape[-1]
    mask[:, :, :, :n] = fill
    return mask


@case(rand(10, 32), shapes={"x": {0: D}}, others=by_size(lambda n: rand(n, 32), 3, 7))
def stack_then_reshape(self, x):
    y = x[:-1, :]
    return torch.stack([y] * 3, dim=0).reshape(-1, 3, 32)


@case(rand(4, 4), rand(4, 4), shapes={"x": (D, D), "y": (D, D)}, others=[(rand(5, 6), rand(6, 3))])
def slice_by_polynomial(self, x, y):
    end = y.shape[0] ** 2 - 3 * y.shape[0]
    return x[:, :end]


@case(rand(1, 1, 16, 16), rand(1, 1, 16, 16), shapes={"x": {2: A, 3: A}, "y": {2: A, 3: A}}, others=[(rand(1, 1, 8, 20), rand(1, 1, 8, 20))])
def down_and_up(self, x, y):
    x = F.interpolate(x, scale_factor=0.5, mode="bilinear")
    x = F.interpolate(x, scale_factor=2.0, mode="bilinear")
    return x + y


@case(ints(2, 3, high=9), ints(3, 2, high=9), shapes={"x": (D, D), "y": (D, D)}, others=[(ints(2, 2, high=9), ints(3, 3, high=9)), (ints(5, 4, high=9), ints(3, 3, high=9))])
def common_rectangle(self, x, y):
    h, w = max(x.shape[0], y.shape[0]), max(x.shape[1], y.shape[1])
    z = torch.zeros((h, w), dtype=x.dtype)
    z[: x.shape[0], : x.shape[1]] = x
    z[: y.shape[0], : y.shape[1]] += y
    return z


@case(rand(3, 12, 12), shapes={"image": {1: Dim("h", min=8, max=64), 2: Dim("w", min=8, max=64)}}, others=[(rand(3, 20, 17),)])
def crop_like(self, image, height=5, width=5):
    c, h, w = image.shape
    top, left = int(round((h - height) / 2.0)), int(round((w - width) / 2.0))
    return image[..., top : top + height, left : left + width]


@case(rand(4), shapes={"x": {0: D}}, others=by_size(lambda n: rand(n), 6, 2))
def branch_on_parity(self, x):
    return x.clone() * 2 if x.size(0) % 2 == 0 else x.clone() * 0


@case(rand(21), rand(5), shapes={"x": None, "y": (A,)})
def linear_relation(self, x, y):
    return x[1::4] + y


@case({"tensor": rand(3), "dict": {k: rand(3) for k in "AB"}, "list": [rand(3) for _ in range(2)]}, shapes={"inputs": {"tensor": {0: batch}, "dict": {k: {0: batch} for k in "AB"}, "list": [{0: batch}, {0: batch}]}}, others=[({"tensor": rand(5), "dict": {k: rand(5) for k in "AB"}, "list": [rand(5) for _ in range(2)]},)])
def spec_over_tree(self, inputs):
    return inputs["tensor"] + inputs["dict"]["A"] + inputs["list"][0]


@case(rand(8, 4), shapes={"x": {0: Dim("n", min=4, max=40)}}, others=by_size(lambda n: rand(n, 4), 5, 9, 40))
def windows_and_remainder(self, x):
    n = x.shape[0]
    pad = -n % 4
    y = F.pad(x, (0, 0, 0, pad))
    return y.view(-1, 4, 4).sum(1), pad


@case(rand(2, 6, 4), shapes={"x": {0: batch, 1: seq}}, others=[(rand(3, 9, 4),), (rand(1, 2, 4),)])
def relative_positions(self, x):
    n = x.shape[1]
    i = torch.arange(n)
    distance = (i[None] - i[:, None]).clamp(-3, 3) + 3
    table = torch.arange(7.0)
    mask = torch.full((n, n), float("-inf")).triu(1)
    return ((x @ x.mT) + table[distance] + mask).softmax(-1) @ x


@case(rand(2, 5, 4), rand(2, 3, 4), shapes={"x": {1: Dim("a", max=32)}, "y": {1: Dim("b", max=32)}}, others=[(rand(2, 2, 4), rand(2, 7, 4))])
def concatenate_two_sizes(self, x, y):
    z = torch.cat([x, y], 1)
    a, b = z.split([x.shape[1], y.shape[1]], 1)
    return z.sum(1), a * 2, b - 1, z[:, x.shape[1] :], z.shape[1]


@case(rand(9, 4), shapes={"x": {0: Dim("n", min=2, max=64)}}, others=by_size(lambda n: rand(n, 4), 2, 5, 12))
def halves(self, x):
    n = x.shape[0]
    first, second = x[: n // 2], x[n // 2 :]
    return torch.cat([second, first]), x.chunk(2)[0], torch.roll(x, n // 2, 0)


@case(rand(3, 3, 8, 8), shapes={"x": {0: batch, 2: Dim("h", min=8, max=64), 3: Dim("w", min=8, max=64)}}, others=[(rand(2, 3, 9, 11),)])
class SmallConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.b = nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.n = nn.GroupNorm(2, 4)

    def forward(self, x):
        y = self.b(self.n(self.a(x)).relu())
        y = y[..., : x.shape[2], : x.shape[3]]
        return y, F.interpolate(y, size=x.shape[2:]), y.flatten(1).shape[1]


@case(rand(4, 6), shapes={"x": {0: batch, 1: Dim("even", max=32) * 2}}, others=[(rand(2, 10),)])
def even_dimension(self, x):
    a, b = x.chunk(2, -1)
    return a * b, x.view(x.shape[0], -1, 2).sum(-1), torch.stack([-b, a], -1).reshape(x.shape)


@case(rand(3, 4), shapes={"x": (batch, seq)}, others=[(rand(6, 2),), (rand(1, 1),)])
def statistics(self, x):
    n = x.numel()
    return x.sum() / n, x.std(), x.var(0), x.norm(), x.flatten().median(), n


@case(rand(6), shapes={"x": {0: Dim("n", min=1, max=64)}}, others=by_size(lambda n: rand(n), 1, 9))
def loops_over_known(self, x):
    out = x
    for i in range(3):
        out = out + x.roll(i) * (i + 1) / x.shape[0]
    return out, [float(x.ndim), x.element_size(), x.is_floating_point()]


@case(rand(2, 7, 4), torch.tensor([5, 3]), shapes={"x": {0: Dim("b", max=8), 1: seq}, "lengths": {0: Dim("b", max=8)}}, others=[(rand(3, 4, 4), torch.tensor([1, 4, 2]))])
def mask_by_lengths(self, x, lengths):
    mask = torch.arange(x.shape[1])[None] < lengths[:, None]
    total = (x * mask[..., None]).sum(1)
    return total / lengths[:, None].clamp(min=1), x.masked_fill(~mask[..., None], 0).max(1).values


@case(rand(4, 3), shapes={"x": {0: Dim("n", min=1, max=9)}}, others=by_size(lambda n: rand(n, 3), 1, 9))
def range_decides_branches(self, x):
    assert x.shape[0] < 10
    if x.shape[0] > 9 or not x.shape[0]:
        return x * 0
    return x[: min(x.shape[0], 12)] if 1 <= x.shape[0] <= 9 else x - 1


@case(rand(4, 3), shapes={"x": {0: Dim("n", min=1, max=9)}}, others=by_size(lambda n: rand(n, 3), 1, 9))
def strings_of_sizes(self, x):
    names = {f"k{i}": x[:, i] for i in range(x.shape[1])}
    return names, tuple(x.shape[1:]), str(x.dtype)


@case(rand(5, 3), shapes={"x": {0: Dim("n", min=2, max=64)}}, others=by_size(lambda n: rand(n, 3), 2, 6))
def triangular_indices(self, x):
    n = x.shape[0]
    gram = x @ x.t()
    return gram.tril().sum(1), gram.diagonal(), torch.eye(n) * gram, gram[torch.arange(n), torch.arange(n)], gram.trace()


@case(rand(5, 3), shapes={"x": {0: Dim("n", min=2, max=64)}}, others=by_size(lambda n: rand(n, 3), 2, 6))
def new_tensors(self, x):
    return x.new_zeros(x.shape), x.new_ones(x.shape[0] + 1), torch.empty_like(x).fill_(2), torch.zeros(x.shape[::-1]), torch.ones_like(x, dtype=torch.int32), x.new_tensor([1.0, 2.0]), torch.linspace(0, 1, 4)


@case(rand(5, 6), shapes={"x": {0: Dim("n", min=2, max=64)}}, others=by_size(lambda n: rand(n, 6), 2, 6))
def einops_like(self, x):
    y = x.view(x.shape[0], 2, 3).permute(2, 0, 1).contiguous()
    return y.reshape(3, -1), y.unflatten(0, (3, 1)).squeeze(1), torch.einsum("cbn,cbm->nm", y, y)


@case(rand(3, 2, 8), shapes={"x": {1: Dim("n", min=0, max=64)}}, others=by_size(lambda n: rand(3, n, 8), 0, 1))
class attention_of_none(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, x):
        return self.attention(x, x, x)


@case(rand(3, 4), shapes={"x": {0: Dim("n", min=0, max=64)}}, others=by_size(lambda n: rand(n, 4), 1, 2))
def size_left_open(self, x):
    return x.reshape(x.shape[0], -1) + 1, x.view(-1, 2)
