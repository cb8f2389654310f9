# Numbers and sizes that only data decide: item(), tolist(), nonzero, masks.
import math

import torch
import torch.nn.functional as F

from cases import case, ints, rand
from torch import nn
from torch.export import Dim

many = Dim("many", min=3, max=64)


@case(torch.tensor([3]), others=[(torch.tensor([5]),), (torch.tensor([1]),)])
def full_of_item(self, x):
    b = x.item()
    torch._check_is_size(b)
    return torch.full((b, 1), 1)


@case(rand(5, 7), torch.tensor(5), others=[(rand(5, 7), torch.tensor(2)), (rand(5, 7), torch.tensor(0))])
def narrow_by_item(self, x, n):
    k = n.item()
    torch._check_is_size(k, max=x.size(1))
    return x.narrow(1, 0, k)


@case(torch.arange(10), torch.tensor(2), others=[(torch.arange(10), torch.tensor(4))])
def narrow_with_start(self, x, p):
    u = p.item()
    torch._check(u + 5 <= x.shape[0])
    torch._check(u >= 0)
    return x.narrow(0, u + 5, x.shape[0] - u - 5)


@case(torch.tensor([5, 6]), others=[(torch.tensor([1, 2]),), (torch.tensor([0, 1]),)])
def sum_of_two_sizes(self, xs):
    a, b = xs.tolist()
    x = torch.zeros(1, a + b).contiguous()
    return x.unsqueeze(-1)


@case(torch.tensor([5]), others=[(torch.tensor([2]),), (torch.tensor([1]),)])
def size_less_one(self, x):
    u = x.item()
    torch._check_is_size(u)
    t = torch.ones(u - 1)
    return t + t


@case(torch.tensor([3, 4, 5]), torch.tensor([2, -1, 1, 0]), others=[(torch.tensor([2, 3, 6]), torch.tensor([-1, 4, 0, 2]))])
def pad_by_data(self, xs, pad):
    a, b, c = xs.tolist()
    x = torch.ones(a, b, c)
    l0, r0, l1, r1 = pad.tolist()
    return F.pad(x, (l0, r0, l1, r1))


@case(torch.tensor(2), rand(10), others=[(torch.tensor(0), rand(10)), (torch.tensor(9), rand(10))])
def select_by_narrow(self, x, y):
    i = x.item()
    torch._check(i >= 0)
    torch._check(i < y.shape[0])
    return y.narrow(0, i, 1).squeeze()


@case(torch.arange(10), torch.tensor([0, 2, 5, 7, 10]), others=[(torch.arange(10), torch.tensor([0, 0, 1, 9, 10]))])
def split_by_offsets(self, x, offsets):
    lengths = torch.diff(offsets).tolist()
    parts, start = [], 0
    for length in lengths:
        parts.append(x.narrow(0, start, length))
        start += length
    return parts


@case(torch.tensor([9]), others=[(torch.tensor([5]),), (torch.tensor([1]),)])
def view_of_item(self, x):
    u = x.item()
    y = torch.ones(5, u)
    return y.view(u, 5)


@case(torch.tensor([4, 4]), others=[(torch.tensor([5, 5]),)])
def reshape_to_equal_item(self, xs):
    a, b = xs.tolist()
    return torch.zeros(a).reshape(b)


@case(torch.ones(3, dtype=torch.int), others=[(torch.tensor([1, 2, 3], dtype=torch.int),)])
def tolist_as_output(self, x):
    return x.tolist()


@case(rand(4, 3), 0.15, torch.tensor(4), others=[(rand(4, 3), 0.15, torch.tensor(2))])
def top_of_the_valid(self, scores, threshold, topk):
    valid = scores > threshold
    picked = scores[valid]
    where = torch.nonzero(valid)
    n = torch.minimum(topk, torch.tensor(where.shape[0])).item()
    torch._check_is_size(n)
    torch._check(picked.shape[0] >= n)
    picked, order = picked.sort(descending=True)
    rows = where[order[:n]]
    keep, labels = rows.unbind(dim=1)
    return picked[:n], labels, keep


@case(torch.tensor(4), rand(10, 10), others=[(torch.tensor(0), rand(10, 10))])
def index_by_item(self, x, y):
    b = x.item()
    torch._check(b >= 0)
    torch._check(b < y.shape[0])
    return y[0, b]


@case(rand(4, 5, 6), torch.tensor([2, 3, 4]), others=[(rand(4, 5, 6), torch.tensor([1, 1, 5]))])
def indices_of_all_kinds(self, t, x):
    i, j, k = x.tolist()
    for n, size in zip((i, j, k), t.shape):
        torch._check(n >= 0)
        torch._check(n < size)
    return t[i, j, k], t[:i, :j, :k], t[:i, j, :k], t[None, i, None], t[:i, None, :j, None, None, :k], t[:i, None, ..., None, j]


@case(torch.tensor([8]), others=[(torch.tensor([16]),)])
class LinearOfItemRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, x):
        n = x.item()
        torch._check_is_size(n)
        return self.lin(torch.ones(1, n, 4))


@case(torch.tensor([2, 6, 5]), others=[(torch.tensor([4, 7, 5]),), (torch.tensor([6, 5, 5]),)])
def any_of_values(self, xs):
    from torch.fx.experimental.symbolic_shapes import sym_and, sym_or
    a, b, c = xs.tolist()
    torch._check(sym_or(a == 2, a == 4, a == 6))
    torch._check(sym_and(b >= 4, b <= 8, c == 5))
    return a + b + c


@case(torch.tensor([1, 1, 1, 0, 1]), shapes={"x": {0: many}}, others=[(torch.tensor([0, 1, 1, 0, 1, 1]),)])
def at_least_three(self, x):
    b = x.nonzero()
    torch._check(b.shape[0] >= 3)
    return b


@case(torch.tensor([3]), torch.tensor([3.25]), torch.tensor([True]), others=[(torch.tensor([5]), torch.tensor([-1.5]), torch.tensor([False]))])
def tensors_of_items(self, u, f, b):
    return torch.tensor([u.item()]), torch.tensor([f.item()]), torch.tensor([b.item()])


@case(torch.tensor([20, 10]), others=[(torch.tensor([5, 10]),)])
def counts_with_minimum(self, xs):
    a, b = xs.tolist()
    x = torch.ones(a, dtype=torch.int64)
    return torch.bincount(x, minlength=b)


@case(ints(6, high=4), others=[(ints(6, high=3),)])
def counts(self, x):
    return x.bincount()


@case(torch.tensor([1]), others=[(torch.tensor([0]),)])
def item_of_int(self, x):
    return x.item()


@case(torch.tensor([True]), others=[(torch.tensor([False]),)])
def item_of_bool(self, x):
    return x.item()


@case(torch.tensor([3.5]), others=[(torch.tensor([-0.25]),)])
def item_of_float(self, x):
    return x.item()


@case(torch.tensor(4), others=[(torch.tensor(5),)])
def max_with_number(self, x):
    return torch.ones(max(x.item(), 10)), torch.ones(2) * min(x.item(), 3)


@case(torch.tensor(5), rand(5), others=[(torch.tensor(11), rand(5))])
def power_of_item(self, x, y):
    p = min(x.item(), 10)
    return y * math.pow(p, 2), y * p ** 2


@case(torch.tensor(4), torch.tensor(5), rand(5), shapes={"x": None, "y": None, "z": {0: Dim("n", max=16)}}, others=[(torch.tensor(4), torch.tensor(6), rand(6))])
def item_equals_size(self, x, y, z):
    m, n = x.item(), y.item()
    torch._check(m == 4)
    torch._check(n == z.shape[0])
    return m + n + z


@case(torch.tensor(6), torch.tensor(6), torch.tensor(6), rand(1))
def item_branches_decided(self, a, b, c, y):
    z1, z2, z3 = a.item(), b.item(), c.item()
    torch._check(z1 == z2)
    torch._check(z2 == z3)
    return y * 2 if z1 == z3 else y + 3


@case(rand(3, 4), others=[(rand(3, 4) + 1,)])
def masked_and_summed(self, x):
    y = x[x > 0]
    return y.sum(), y.mean(), y.numel(), y.shape[0] * 2 + 1, torch.cat([y, x[0]])


@case(rand(6), others=[(rand(6) + 1,), (rand(6) - 2,)])
def nonzero_as_tuple(self, x):
    (i,) = torch.nonzero(x > 0, as_tuple=True)
    return x[i], torch.where(x > 0)


@case(rand(5, 3), rand(5) > 0, others=[(rand(5, 3), torch.tensor([True, True, False, False, True]))])
class LinearOfPicked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x, mask):
        y = self.lin(x[mask])
        out = torch.zeros(x.shape[0], 2)
        out[mask] = y
        return out, y.relu().reshape(-1, 2).transpose(0, 1)


@case(torch.tensor([3, 4]), others=[(torch.tensor([2, 5]),)])
def arange_by_items(self, xs):
    a, b = xs.tolist()
    torch._check(a >= 0)
    torch._check(b >= a)
    return torch.arange(a, b), torch.arange(b), torch.arange(b).view(-1, 1) * torch.ones(a)


@case(rand(7), others=[(rand(7),)])
def number_arithmetic(self, x):
    n = (x > 0).sum().item()
    f = x.sum().item()
    return n // 2, n % 3, n + 1 > 2, f * n, f / 2 - 1, x * (n - 1), abs(f), -n, f ** 2, f


@case(rand(2, 3), torch.tensor(2), others=[(rand(2, 3), torch.tensor(4))])
def repeat_and_expand_by_item(self, x, n):
    k = n.item()
    torch._check(k >= 1)
    torch._check(k <= 16)
    return x.repeat(k, 1), x[None].expand(k, 2, 3), x.unsqueeze(0).expand(k, -1, -1).reshape(k * 2, 3)


@case(rand(9), torch.tensor(4), others=[(rand(9), torch.tensor(0))])
def write_by_item(self, x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k < 9)
    y = x.clone()
    y[k] = 5
    y[:k] += 1
    return y


@case(ints(6, high=3), others=[(torch.zeros(6, dtype=torch.int64),)])
def unique_values(self, x):
    return torch.unique(x)


@case(rand(6), others=[(rand(6),)])
def assert_async(self, x):
    torch._assert_async((x.abs() < 100).all())
    return x + 1


@case(torch.tensor(0.5), rand(3), others=[(torch.tensor(-0.5), rand(3))])
def mask_without_axes(self, x, y):
    z = y.clone()
    z[x > 0] = 7
    return x[x > 0], y[x > 0], z
