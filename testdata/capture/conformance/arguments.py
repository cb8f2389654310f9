# Arguments and results: keywords in any order, defaults, constants, dataclasses, named tuples, None.
import collections
import dataclasses
import enum
import typing

import torch

from cases import case, rand
from torch import nn
from torch.export import Dim

batch = Dim("batch", max=64)


@case([rand(1, 3)], 1)
def only_a_number(self, x, y):
    return y


@case(2, 1)
def no_tensors(self, x, y):
    return 5


@case(rand(3), 1)
def number_is_unused(self, x, y):
    return x


@case(rand(7, 5), 5, shapes={"x": {0: Dim("n", min=6, max=64)}, "y": None}, others=[(rand(8, 5), 5)])
def number_is_added(self, x, y):
    return x + y


@case(rand(4, 4), rand(4), "trunc")
def mode_is_a_string(self, a, b, mode):
    return torch.div(a, b, rounding_mode=mode)


@case(rand(2, 3), [(rand(2, 3),), rand(3, 4)], rand(2, 3), rand(3, 4), kwargs={"kw1": (rand(2, 3),), "kw2": rand(3, 4), "kw3": (rand(2, 3), rand(3, 4)), "kw4": rand(3, 4)})
def variable_arguments(self, arg1, arg2, *args, kw1, kw2, **kwargs):
    return arg1 + arg2[0][0] + args[0] + kw1[0] + kwargs["kw3"][0], arg2[1] + args[1] + kw2 + kwargs["kw4"]


@case(rand(6, 4), rand(1, 1), kwargs={"a": {"kw1": rand(1, 1), "kw2": rand(6, 4)}})
def default_of_keyword(self, arg1, arg2, a, b=1):
    return arg1 + arg2, a["kw1"] + a["kw2"] + b


@case(rand(6, 4), rand(1, 1), kwargs={"b": 1})
def default_in_the_middle(self, arg1, arg2, a=1, b=2):
    return arg1 + a, arg2 + b


@case(kwargs={"z": rand(3), "y": rand(3), "x": rand(3)})
def keywords_in_other_order(self, *, x, y, z):
    return x + y * 2 + z * 3


@case(rand(1, 3), kwargs={"flag": False, "x2": rand(1, 3)})
class KeywordsSkipOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(3, 5)

    def forward(self, x1, x2, flag=True):
        return torch.cat([self.a(x1), self.b(x2)], 1)


@case(rand(4, 4), kwargs={"end": rand(4, 4, 4), "start": rand(4, 4)}, shapes={"base": {0: batch}, "end": {0: batch}, "start": {0: batch, 1: batch}})
def keyword_shapes_in_other_order(self, base, *, start, end):
    return base.sum() + start.sum() + end.sum()


@case(rand(4, 4), rand(4, 4), kwargs={"kw2": rand(4, 4), "kw1": rand(4, 4)}, shapes=(None, {0: batch}, {0: Dim("other", max=64)}, None))
def shapes_by_position(self, a, b, kw1, kw2):
    return a.sum() + b.sum() + kw1.sum() - kw2.sum()


class Kind(enum.Enum):
    A = 1
    B = 2


@case(rand(3), 2)
def enumeration(self, x, kind):
    return x * Kind(kind).value


Point = collections.namedtuple("Point", "x y")


@case(Point(rand(3), [rand(2), None]), others=[(Point(rand(3), [rand(2), None]),)])
def named_tuple_with_none(self, p):
    return Point(p.y[0], {"z": p.x, "n": None})


@case(collections.OrderedDict(b=rand(2), a=rand(2)))
def ordered_dict(self, d):
    return collections.OrderedDict((k, v * i) for i, (k, v) in enumerate(d.items()))


@case({"b": rand(2), "a": rand(2)}, others=[({"a": rand(2), "b": rand(2)},)])
def dict_order_of_insertion(self, d):
    out = 0
    for i, (k, v) in enumerate(d.items()):
        out = out * 2 + v
    return d["a"] - d["b"]


@dataclasses.dataclass
class Inner:
    a: torch.Tensor
    n: int
    none: typing.Optional[torch.Tensor] = None


@dataclasses.dataclass
class Outer:
    inner: Inner
    items: list


torch.export.register_dataclass(Inner)
torch.export.register_dataclass(Outer)


@case(Outer(Inner(rand(3), 2), [rand(3), 1.5]))
def nested_dataclass(self, o):
    return Outer(Inner(o.inner.a * o.inner.n, 3), [o.items[0] * o.items[1], None])


@case(rand(2), None, others=[(rand(2), None)])
def optional_is_none(self, x, y=None):
    return x if y is None else x + y


@case(rand(2), (), [], {}, others=[])
def empty_containers(self, x, a, b, c):
    return x, (), [a, b], c


@case(rand(2), rand(2))
def same_output_twice(self, x, y):
    z = x + y
    return z, [z, z], {"k": z, "x": x}


@case(rand(3), 1.5, True, "name", None)
def constants_of_all_kinds(self, x, f, b, s, n):
    return x * f if b and s == "name" and n is None else x


@case(rand(3), [1, 2, 3], (0.5, True))
def numbers_in_lists(self, x, numbers, pair):
    return x * sum(numbers) * pair[0] if pair[1] else x
