# Corners that people have tripped over: state written under no_grad, modules called with different flags, slices by numbers of
# unknown sign, asserts on data, shifts of sizes, assumptions inside of branches.
import dataclasses

import torch
import torch.nn.functional as F

from cases import by_size, case, ints, rand
from torch import nn
from torch.export import Dim

n = Dim("n", max=64)


# --- State


@case(rand(2, 3), others=by_size(lambda k: rand(k, 3), 2))
class ParameterScaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x):
        with torch.no_grad():
            self.w.mul_(2)
        return x + self.w


@case(rand(2, 3), others=by_size(lambda k: rand(k, 3), 2))
class ParameterCopiedInto(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.zeros(1), requires_grad=False)

    def forward(self, x):
        with torch.no_grad():
            self.w.copy_(x[0])
        self.frozen += 1
        return x + self.w * self.frozen


@case(rand(4, 4), others=[(rand(4, 4),)])
class BufferAndInputUpdated(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = nn.Buffer(torch.zeros(4, 4))

    def forward(self, x):
        self.seen.add_(1)
        x.add_(1)
        return self.seen + x


@case(rand(2, 3))
class TransientBufferInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Module()
        self.inner.register_buffer("scale", torch.full((3,), 2.0), persistent=False)

    def forward(self, x):
        return x * self.inner.scale


@case(rand(4))
class NamesOfOneParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(4))
        self.beta = self.gamma = self.alpha

    def forward(self, x):
        return x + self.alpha


@case(rand(2, 4))
class RemovedModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.other = nn.Linear(4, 4)
        self.other = None

    def forward(self, x):
        for module in self._modules.values():
            if module is not None:
                x = module(x)
        return x


@case(torch.ones(4, 4))
class ConstantReturned(nn.Module):
    def __init__(self):
        super().__init__()
        self.constant = torch.ones(4, 4)

    def forward(self, x):
        return x + self.constant, self.constant


# --- Modules called several times


class Step(nn.Module):
    def forward(self, x, up):
        return x + 1 if up else x * 2


@case(torch.ones(1))
class CalledWithFlags(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = Step()
        self.same = self.step

    def forward(self, x):
        return self.same(self.step(self.step(x + 3, True) + 4, False) + 5, True)


@case(rand(2, 1))
class FirstOfList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, 1) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers[:1]:
            x = layer(x)
        return x


class AddOne(nn.Module):
    def forward(self, x):
        y = x.add_(3)
        return y - 2


@case(torch.ones(2, 3))
class ChildUpdatesArgument(nn.Module):
    def __init__(self):
        super().__init__()
        self.child = AddOne()

    def forward(self, x):
        return self.child(x) + x * 4


# --- Slices and indices by data


@case(rand(6, 3), torch.tensor(2), others=[(rand(6, 3), torch.tensor(k)) for k in (0, 4, 9)])
def head_by_item(self, x, k):
    return x[: k.item()].sum(0)


@case(rand(6, 3), torch.tensor(-2), others=[(rand(6, 3), torch.tensor(k)) for k in (0, 4, -9, 9)])
def head_and_tail_of_any_sign(self, x, k):
    k = k.item()
    return x[:k].sum(0), x[k:].sum(0)


@case(rand(8), torch.tensor(2), others=[(rand(8), torch.tensor(k)) for k in (0, -3, 7, 20)])
def window_set_to_zero(self, x, k):
    k = k.item()
    x = x.clone()
    x[k : k + 2] = 0
    return x


@case(rand(8), torch.tensor(2), others=[(rand(8), torch.tensor(k)) for k in (0, -3, 7)])
def strided_by_item(self, x, k):
    return x[1 : k.item() : 2].sum()


@case(rand(3, 3), torch.tensor([1]), others=[(rand(3, 3), torch.tensor([k])) for k in (0, -1)])
def row_of_any_sign(self, x, k):
    return x.select(0, k.item())


@case(rand(8, 6), ints(4, high=5), others=[(rand(8, 6), torch.tensor([1, 0, 2, 2]))])
def narrow_to_maximum(self, x, ranks):
    part = x.narrow(1, 0, ranks.max().item())
    return (part < part.size(1)).sum(0).sum()


# --- Numbers and truths of data


@case(torch.zeros(4, dtype=torch.int32), others=[(torch.ones(4, dtype=torch.int32),)])
def asserted_maximum(self, x):
    y = x + 1
    assert y.max().item() > 0
    return y


@case(torch.tensor([3]), torch.tensor([3.5]), torch.tensor([True]), others=[(torch.tensor([5]), torch.tensor([-1.25]), torch.tensor([False]))])
def tensors_of_items(self, a, b, c):
    return torch.tensor([a.item()]), torch.tensor([b.item()]), torch.tensor([c.item()])


@case(torch.ones(4), others=[(torch.arange(4.0),)])
def half_of_maximum(self, x):
    return -(x.max().item() / 2) + x


@case(torch.tensor([1, 2, 3]), others=[(torch.tensor([3, 4, 5]),), (torch.tensor([0, 1, 0]),)])
def expand_by_items(self, sizes):
    a, b, c = sizes.tolist()
    return torch.zeros(a, b, 1).expand(-1, b, c)


@case(torch.arange(64), torch.tensor([32]), others=[(torch.arange(64), torch.tensor([5]))])
def smallest_by_item(self, x, k):
    return x.kthvalue(min(k.item(), 128), dim=0, keepdim=True).values


@case(rand(4, 4), torch.tensor(3), others=[(rand(4, 4), torch.tensor(k)) for k in (1, 4)])
def check_inside_a_branch(self, x, k):
    def first(x, k):
        k = k.item()
        torch._check(k >= 1)
        torch._check(k <= 4)
        return x[:k].sum(0)

    return torch.cond(x.sum() > -100, first, lambda x, k: x.sum(0), (x, k))


@case(rand(5), shapes={"x": {0: n}}, others=by_size(lambda k: rand(k), 2, 3, 9))
def branch_by_size_indexes(self, x):
    return torch.cond(x.shape[0] > 4, lambda x: x[4] * 2, lambda x: x.sum(), (x,))


# --- Sizes


@case(rand(8), shapes={"x": {0: Dim("k", min=5, max=10)}}, others=by_size(lambda k: rand(k), 5, 10))
def shifted_sizes(self, x):
    return x[: x.shape[0] >> 1], x[: x.shape[0] << 1]


@case(rand(8), shapes={"x": {0: Dim("k", min=5, max=10)}}, others=by_size(lambda k: rand(k), 5, 6, 7, 10))
def rounded_half(self, x):
    return x[: round(x.shape[0] / 2.0)]


@case(rand(21), rand(5), shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}, others=[(rand(30), rand(8)), (rand(33), rand(8))])
def every_fourth(self, x, y):
    return x[1::4] + y


@case(rand(6), rand(4), shapes={"x": {0: n}, "y": {0: Dim("m", max=64)}}, others=[(rand(3), rand(2))])
def size_of_what_is_not_made(self, x, y):
    return torch.cat([x, x]).repeat(y.shape[0]).shape[0] + x.shape[0]


# --- Operators, and what surrounds them


@case(torch.tensor([[1, 0], [0, 2]]), others=[(torch.tensor([[1, 1], [1, 2]]),), (torch.tensor([[0, 0], [0, 0]]),)])
def nonzero_of_fixed_size(self, x):
    return torch.nonzero_static(x, size=3), torch.nonzero_static(x, size=5, fill_value=7)


@case(rand(2, 2, 3), rand(2, 1, 4, 5))
def affine_grids(self, theta, x):
    grid = F.affine_grid(theta, x.shape, align_corners=False)
    return F.grid_sample(x, grid, align_corners=False), F.affine_grid(theta, (2, 1, 3, 1), align_corners=True)


@case(torch.tensor([1, 1, 2, 2, 3, 1]))
def runs_of_equals(self, x):
    return torch.unique_consecutive(x, return_inverse=True, return_counts=True)


@case(rand(5))
def profiled(self, x):
    with torch.profiler.record_function("part"):
        return x.sin()


@case(rand(5))
def knows_that_it_is_compiled(self, x):
    return x * 2 if torch.compiler.is_compiling() else x * 2.0


@dataclasses.dataclass(frozen=True)
class Settings:
    first: int
    second: int


torch.utils._pytree.register_constant(Settings)


@case(rand(2, 2), Settings(4, 5))
def constant_class(self, x, settings):
    return x + settings.first * settings.second


@case(rand(1))
def bits_of_steps(self, x):
    return torch.linspace(-1, 1, 31).view(torch.int32), torch.linspace(0.1, 0.9, 12, dtype=torch.float16).view(torch.int16), x


@case(rand(6, 3), shapes={"x": {0: n}}, others=by_size(lambda k: rand(k, 3), 3, 9, 16))
def bits_of_sizes(self, x):
    k = x.shape[0]
    return torch.stack([x.sum() + number for number in (k ^ 1, k & 6, 5 | k, (k - 8) & -4, 7 ^ (k - 8))])


@case(rand(4, 5, 3), shapes={"x": {0: Dim("b", min=0, max=16)}}, others=by_size(lambda k: rand(k, 5, 3), 0, 1, 7))
def responses_of_any_number(self, x):
    return F.local_response_norm(x, 2), F.local_response_norm(x[..., None, None], 3), F.rrelu_(x - 0.5)


@case(rand(4, 3))
def strided_as_it_lies(self, x):
    y = x.clone()
    part = y[:, 1:]
    part.as_strided(part.shape, part.stride()).mul_(2)
    return y
