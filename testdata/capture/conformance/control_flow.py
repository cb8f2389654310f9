# Conditions and loops as subgraphs: closures, modules, nests, structures.
import torch

from cases import by_size, case, rand
from torch import nn
from torch.export import Dim
from torch._higher_order_ops import associative_scan, map, scan, while_loop

batch = Dim("batch", max=64)
rows = by_size(lambda n: rand(n, 4), 2, 5)
signs = [(rand(3, 4).abs(),), (-rand(3, 4).abs(),)]


@case(rand(7), others=[(torch.zeros(7),)])
def cond_on_count(self, a):
    where = a.nonzero()
    return torch.cond(where.size(0) > 3, lambda x: (x + 1).sum(), lambda x: (x + 3).sum(), (where,)) * 2


@case(rand(3, 4), others=signs)
def cond_gives_int(self, x):
    i = torch.cond(x.sum() > 0, lambda: 0, lambda: 1, ())
    return x[i]


@case(torch.tensor(True), torch.tensor([4]), torch.tensor([3]), rand(10), others=[(torch.tensor(False), torch.tensor([4]), torch.tensor([3]), rand(10))])
def items_inside_branches(self, a, b, c, x):
    return torch.cond(a, lambda x: x * b.item(), lambda x: x * c.item(), (x,)) * 2


@case(torch.tensor(True), rand(10), others=[(torch.tensor(False), rand(10))])
class CondUsesAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.num = 4

    def forward(self, a, x):
        return torch.cond(a, lambda x: x * self.num, lambda x: x + self.num, (x,)) * 2


@case(rand(6, 4), shapes={"x": {0: Dim("n", min=3, max=64)}}, others=by_size(lambda n: rand(n, 4), 3, 4, 5))
class CondOnSizeWithBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buffer", torch.ones(6, 4))

    def forward(self, x):
        return torch.cond(x.shape[0] > 4, lambda x: x.cos() + self.buffer.sum(), lambda x: x.sin(), (x,))


@case(rand(2, 3), others=[])
class CondReadsParameterOrBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(torch.ones(2, 3), requires_grad=False)
        self.register_buffer("buffer", torch.ones(2, 3) + 1)

    def then(self, x):
        return x + self.param

    def other(self, x):
        return x + self.buffer

    def forward(self, x):
        return torch.cond(x.shape[0] == 4, self.then, self.other, [x])


@case(rand(3, 4), others=signs)
class CondOverModules(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.a, self.b, (x,))


@case(rand(3, 4), others=signs)
def cond_of_trees(self, x):
    y = torch.cond(x.sum() > 0, lambda d: {"a": d["x"] + 1, "b": [d["x"], d["k"]]}, lambda d: {"a": d["x"], "b": [d["x"] * 2, d["k"] - 1]}, ({"x": x, "k": x[0]},))
    return y["a"] + y["b"][0], y["b"][1]


@case(True, rand(3, 3))
def cond_on_python_bool(self, pred, x):
    return torch.cond(pred, lambda x: x.sin(), lambda x: x.cos(), (x,))


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def cond_assumes_inside(self, x):
    def then(x):
        return x[:3].sum(0)

    def other(x):
        return x.sum(0)

    return torch.cond(x.shape[0] >= 3, then, other, (x,))


@case(rand(4, 8), rand(8))
def loop_with_index(self, x, y):
    def body(i, out, y):
        k = i.item()
        torch._check_is_size(k, max=x.size(0) - 1)
        y = x[k] + y
        out = out.clone()
        out[k] = y
        return i + 1, out, y

    return while_loop(lambda i, out, y: i < out.size(0), body, (torch.tensor(0), torch.zeros_like(x), y))[1]


@case(rand(3), torch.tensor(4), others=[(rand(3), torch.tensor(0))])
def loop_count_from_data(self, x, n):
    return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 0.5 + i), (torch.tensor(0), x))[1]


@case(rand(3), others=[])
def loop_with_python_int(self, x):
    return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x + 1), (0, x))


@case(rand(6, 4), torch.tensor(5.0), torch.tensor(4.0), shapes={"xs": {0: batch}, "y": None, "z": None}, others=[(rand(2, 4), torch.tensor(1.0), torch.tensor(4.0))])
def map_with_arguments(self, xs, y, z):
    return map(lambda x, y, z: x + y + z, xs, y, z)


@case(rand(5, 4), shapes={"x": {0: batch}}, others=rows)
def map_of_trees(self, x):
    return map(lambda d: (d[0].sin(), d[1] + 1), (x, x * 2))


@case(rand(5, 4), shapes={"x": {0: batch}}, others=rows)
class ScanWithParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 4)

    def forward(self, x):
        def step(h, x):
            h = torch.tanh(self.cell(torch.cat([h, x], -1)))
            return h, h * 2

        return scan(step, torch.zeros(4), x)


@case(rand(5, 4), rand(5, 4))
def scan_of_trees(self, x, y):
    def step(carry, xs):
        c = {"a": carry["a"] + xs[0], "b": carry["b"] * xs[1]}
        return c, (c["a"] - c["b"], xs[0].sum())

    return scan(step, {"a": torch.zeros(4), "b": torch.ones(4)}, (x, y))


@case(rand(5, 4), shapes={"x": {0: batch}}, others=rows)
def cumulative_pairs(self, x):
    return associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (x, x + 1), 0, combine_mode="generic")


@case(rand(4, 4), others=[(rand(4, 4) - 1,)])
def nested_flow(self, x):
    def body(i, x):
        return i + 1, torch.cond(x.sum() > 0, lambda x: x * 0.5, lambda x: x + 0.25, (x,))

    return while_loop(lambda i, x: (i < 5) & (x.abs().max() > 0.1), body, (torch.tensor(0), x))


@case(rand(3, 4), others=signs)
def cond_updates_inside(self, x):
    def then(x):
        y = x.clone()
        y.add_(1)
        y[0] = 3
        return y

    return torch.cond(x.sum() > 0, then, lambda x: x * 2, (x,))


@case(rand(3, 4), others=signs)
def cond_returns_its_operand_changed(self, x):
    y = x + 1
    z = torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))
    y.add_(1)
    return z + y


@case(rand(3, 4), torch.tensor(2), others=[(rand(3, 4), torch.tensor(-1))])
def cond_on_item(self, x, n):
    k = n.item()
    return torch.cond(k > 0, lambda x: x + k, lambda x: x - k, (x,))


@case(rand(3, 4), others=signs)
def no_grad_and_cond(self, x):
    with torch.no_grad():
        y = torch.cond(x.mean() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    return y + x


@case(torch.tensor(False), rand(3, 4), others=[(torch.tensor(True), rand(3, 4))])
def exporting_inside_cond(self, pred, x):
    def f(x):
        return x.sin() if torch.compiler.is_exporting() else x.sin()

    return torch.cond(pred, lambda x: f(x) - 1, lambda x: f(x) + 1, (x,)) * f(x)


@case(rand(3, 4), others=signs)
def several_conds(self, x):
    y = torch.cond(x[0].sum() > 0, lambda: x + 1, lambda: x - 1, ())
    z = torch.cond(x[1].sum() > 0, lambda: y * 2, lambda: y * 3, ())
    return y, z
