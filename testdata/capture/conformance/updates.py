# Updates in place: of intermediates, through views, of inputs, of buffers.
import torch
import torch.nn.functional as F

from cases import by_size, case, ints, rand
from torch import nn
from torch.export import Dim

batch = Dim("batch", max=64)
rows = by_size(lambda n: rand(n, 4), 2, 5)


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def add_in_place(self, x):
    y = x * 2
    y += 1
    y.mul_(x).clamp_(-0.5, 0.5)
    return y


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def write_through_slice(self, x):
    y = x.clone()
    y[:, 1:3] = 0
    y[:, 0] += x[:, 3]
    return y


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def view_sees_update(self, x):
    y = x.clone()
    row = y[0]
    flat = y.view(-1)
    y.add_(1)
    return row * 2, flat.sum()


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def update_seen_by_base(self, x):
    y = x.clone()
    y.t()[1].fill_(7)
    y.unsqueeze(0).squeeze(0)[..., -1].neg_()
    return y


@case(rand(4))
def input_is_updated(self, x):
    x.mul_(2)
    return x + 1


@case(rand(2, 3), rand(2, 3))
def two_inputs_updated(self, x, y):
    y.copy_(x)
    x[0].zero_()
    return x + y


@case(rand(4, 4))
def masked_store(self, x):
    y = x.clone()
    y[y < 0] = 0
    return y.masked_fill(x > 0.5, 9)


@case(rand(4, 3), ints(2, high=4))
def indexed_store(self, x, index):
    y = x.clone()
    y[index] = torch.ones(3)
    y.index_add_(0, index, torch.ones(2, 3))
    return y


@case(rand(2, 4), ints(2, 2, high=4))
def scatter_in_place(self, x, index):
    return x.clone().scatter_(1, index, 5.0), torch.zeros(2, 4).scatter_add_(1, index, x[:, :2])


@case(rand(3))
def loop_of_updates(self, x):
    y = torch.zeros(3, 3)
    for i in range(3):
        y[i] = x * i
        y[i, i] += 1
    return y


@case(rand(2, 3))
def functional_in_place(self, x):
    y = F.relu(x - 0.1, inplace=True)
    return F.dropout(y, 0.5, self.training)


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def overwritten_view_of_view(self, x):
    y = x.clone()
    part = y[:, 1:][:, :2]
    part -= 1
    part[0] = 3
    return y, part


@case(rand(4))
def out_argument(self, x):
    y = torch.empty(4)
    torch.add(x, 1, out=y)
    return y


@case(rand(2, 2))
def swap_columns(self, x):
    y = x.clone()
    y[:, 0], y[:, 1] = x[:, 1].clone(), x[:, 0].clone()
    return y


@case(rand(3))
class CountsCalls(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return x * self.calls


@case(rand(3), others=[(rand(3),), (rand(3),)])
class KeepsMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("unused", torch.ones(2))

    def forward(self, x):
        self.mean.lerp_(x, 0.5)
        return x - self.mean


@case(rand(2), others=[(rand(2),)])
class AssignsBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(2), persistent=False)

    def forward(self, x):
        before = self.last
        self.last = x * 2
        return before + self.last


@case(rand(1, 2), others=[(rand(1, 2),), (rand(1, 2),)])
class ShiftsCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(3, 2))

    def forward(self, x):
        self.cache.copy_(torch.cat([self.cache[1:], x]))
        return self.cache.sum(0)


@case(rand(4, 3), others=[(rand(4, 3),)])
class TrainsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def eval(self):
        return self.train()

    def forward(self, x):
        return self.norm(x)


@case(rand(2, 3))
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x))


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def becomes_a_view(self, x):
    y = x * 2
    flat = y.view(-1)
    y.t_().unsqueeze_(0)
    y[0, 1] = 5
    y.transpose_(0, 2).squeeze_(2)
    return y, flat


@case(rand(3, 3, 4, 4), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 3, 4, 4), 2, 1))
def through_views_of_views(self, x):
    y = x.clone()
    y.movedim(1, -1)[..., 0] += 1
    y.moveaxis(2, 0).mul_(2)
    y.hsplit([1])[0].add_(1)
    y.dsplit(2)[1].zero_()
    y.swapdims(1, 2).select(1, 0).neg_()
    y.unflatten(3, (2, 2))[..., 0].add_(7)
    y.adjoint().sub_(1)
    y.expand_as(y).mul_(1.5)
    torch.linalg.diagonal(y).add_(3)
    y.tensor_split(3, 2)[1].add_(1)
    y.chunk(2, 3)[1].add_(2)
    y.unbind(1)[2].add_(3)
    return y


@case(rand(3, 3, 4, 4))
def copies_by_strides(self, x):
    y = x.clone()
    moved = y.movedim(1, -1).reshape(-1)
    y.diagonal(0, 2, 3).contiguous().add_(1)
    y.diagonal(0, 2, 3).reshape(-1).add_(5)
    y.unfold(2, 2, 2).contiguous().add_(3)
    y.unfold(2, 2, 2).reshape(-1).add_(7)
    y.add_(10)
    return y, moved


@case(rand(2, 3))
def complex_parts(self, x):
    c = torch.complex(x, x * 2)
    torch.view_as_real(c)[..., 0] += 5
    c.imag.add_(1)
    y = torch.stack([x, x + 1], -1)
    torch.view_as_complex(y).mul_(1j)
    return torch.view_as_real(c), y


@case(rand(2, 3))
class KeepsItself(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.alpha = nn.Dropout2d(), nn.AlphaDropout()

    def forward(self, x):
        y = x.clone()
        dropped = self.drop(y)
        dropped += 1
        dropped = self.alpha(y)
        dropped *= 2
        torch.atleast_1d(y).add_(1)
        torch.atleast_3d(y).mul_(2)
        y.to("cpu", torch.float32, False, True).zero_()
        return y


@case(rand(2, 3, 4))
def into_given(self, x):
    norms, products, differences = torch.zeros(2, 3), torch.empty(2, 3, 2, 3), torch.empty(2, 3, 3)
    torch.norm(x, dim=-1, out=norms)
    torch.tensordot(x, x, dims=([2], [2]), out=products)
    torch.diff(x, out=differences)
    return norms, products, differences


@case(rand(3, 4))
def scattered_in_place(self, x):
    y, index = x.clone(), torch.tensor([[0, 1, 1, 2]])
    y.scatter_(0, index, torch.tensor([[2.0, 3, 4, 5]]), reduce="multiply")
    y.scatter_(0, index, 3.0, reduce="add")
    return y, torch.ger(x[0], x[1])
