# What people do in Python around tensors: closures, comprehensions, decorators, hooks, module machinery, contexts.
import contextlib
import copy
import functools
import itertools
import math

import torch
import torch.nn.functional as F

from cases import case, ints, rand
from torch import nn

SCALE = 0.5
TABLE = {"double": lambda x: x * 2, "square": torch.square}


@case(rand(3))
def closure_and_lambda(self, x):
    factor = 3
    twice = lambda f: lambda y: f(f(y))
    return twice(lambda y: y * factor + SCALE)(x)


@case(rand(3))
def comprehensions(self, x):
    parts = {i: x[i] * i for i in range(3) if i != 1}
    return sum(parts.values()), [v for row in [[x], [x + 1]] for v in row]


@case(rand(2, 3))
def iterate_over_rows(self, x):
    total = 0
    for i, row in enumerate(x):
        total = total + row * i
    return total, [a + b for a, b in zip(x[0], x[1])]


@case(rand(3))
def partial_and_table(self, x):
    shifted = functools.partial(torch.add, x, alpha=2)
    return shifted(torch.ones(3)), TABLE["double"](x), functools.reduce(torch.mul, [x, x, x])


@case(rand(3))
def while_loop_of_python(self, x):
    i = 0
    while i < 4:
        i += 1
        if i == 2:
            continue
        x = x + i
    else:
        x = x * 2
    return x


@case(rand(3))
def exceptions_of_python(self, x):
    try:
        {}["missing"]
    except KeyError:
        x = x + 1
    finally:
        x = x * 2
    with contextlib.suppress(ZeroDivisionError):
        1 / 0
    return x


@case(rand(3))
def formatted_and_checked(self, x):
    assert x.shape[0] == 3, f"{x.shape}"
    assert isinstance(x, torch.Tensor) and x.dtype is torch.float32 and not x.is_cuda
    return x.to(torch.float64) + len(f"{x.shape[0]}")


@case(rand(3))
def generators(self, x):
    def numbers():
        yield from (1, 2)
        yield 3

    return [x * n for n in numbers()], next(itertools.count(5)) + x


@case(rand(3, 4))
def without_gradients(self, x):
    with torch.no_grad():
        y = x.sum(0)
    with torch.enable_grad():
        return y.detach() + x


@case(rand(3))
def tells_that_it_is_exported(self, x):
    return x + 1 if torch.compiler.is_exporting() and not torch.jit.is_scripting() else x + 1


@case(rand(3))
def math_on_numbers(self, x):
    return x * math.sqrt(16) + math.pi * int(2.7) - round(1.5) + float("0.25")


@case(rand(4))
def types_of_elements(self, x):
    return x.half().float(), x.double(), x.int(), x > 0, (x > 0).float(), x.to(torch.bfloat16).float(), x.long() + 0.5


@case(rand(3))
def constants_in_forward(self, x):
    table = torch.tensor([[1, 2], [3, 4]])
    return x + torch.tensor(2.0), table.sum() + x, torch.linspace(0, 1, 3) * x, torch.eye(3) @ x


@case(rand(3))
def numbers_of_constants(self, x):
    sizes = torch.tensor([1, 2])
    first = sizes[0].item()
    return x[: sizes.tolist()[1]] * first, x + float(torch.tensor(1.5))


@case(ints(2, 3), rand(2, 3))
def mixed_types(self, i, x):
    return i + x, i / 2, i // 2, i * 2.5, x + True, i % 2 == 0, i.float().mean()


@case(rand(3))
def where_and_logic(self, x):
    inside = (x > -0.5) & (x < 0.5) | ~(x != x)
    return torch.where(inside, x, 0.0), torch.logical_xor(x > 0, inside), x.isnan().any()


@case(rand(3, 5))
def several_results(self, x):
    values, indices = x.max(1)
    top = x.topk(2)
    ordered, order = torch.sort(x, dim=-1, descending=True)
    return values, indices, top.values, top.indices, ordered, order, torch.std_mean(x, 1)


@case(rand(2, 3), rand(3, 2))
def einsum_and_products(self, a, b):
    return torch.einsum("ij,jk->ik", a, b), a @ b, torch.einsum("ij->j", a), torch.tensordot(a, b, dims=1), torch.outer(a[0], b[:, 0])


class Scaled(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(n))
        self.constant = torch.arange(n).float()

    def forward(self, x):
        return x * self.scale + self.constant


@case(rand(2, 3))
class ListOfModules(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Scaled(3) for _ in range(3)])
        self.scales = nn.ParameterList([nn.Parameter(torch.rand(1)) for _ in range(2)])

    def forward(self, x):
        for layer, scale in zip(self.layers, itertools.cycle(self.scales)):
            x = layer(x) * scale
        return x


@case(rand(2, 3))
class SharedModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Scaled(3)
        self.b = nn.Sequential(self.a, nn.Tanh(), self.a)

    def forward(self, x):
        return self.b(self.a(x))


@case(rand(2, 3))
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scaled(3)
        self.inner.register_forward_hook(lambda module, args, output: output * 2)
        self.inner.register_forward_pre_hook(lambda module, args: (args[0] + 1,))

    def forward(self, x):
        return self.inner(x)


@case(rand(2, 3))
class CopiedAndApplied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = copy.deepcopy(self.first)
        self.apply(lambda m: nn.init.constant_(m.weight, 0.25) if isinstance(m, nn.Linear) else None)

    def forward(self, x):
        return self.second(self.first(x)) + sum(p.sum() for name, p in self.named_parameters() if "bias" in name)


@case(rand(2, 3))
class MethodsAndProperties(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 3))

    @property
    def symmetric(self):
        return self.weight + self.weight.t()

    @staticmethod
    def activation(x):
        return F.softplus(x)

    @classmethod
    def name(cls):
        return cls.__name__

    def helper(self, x, *, power=2):
        return (x @ self.symmetric) ** power

    def forward(self, x):
        return self.activation(self.helper(x)) + len(self.name())


@case(rand(2, 3))
class Parametrized(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

        class Symmetric(nn.Module):
            def forward(self, w):
                return w.triu() + w.triu(1).t()

        nn.utils.parametrize.register_parametrization(self.layer, "weight", Symmetric())

    def forward(self, x):
        return self.layer(x)


@case(rand(3))
class OwnFunction(nn.Module):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2 * ctx.saved_tensors[0]

    def forward(self, x):
        return self.Square.apply(x) + 1
