# Inputs and outputs of every structure: containers, None, optional and keyword arguments, numbers and texts.
import collections
import dataclasses
import typing

import torch

from cases import case, rand
from torch import nn
from torch.export import Dim, register_dataclass

batch = Dim("batch", max=64)
Pair = collections.namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Features:
    values: torch.Tensor
    mask: typing.Optional[torch.Tensor] = None


register_dataclass(Features)


@case({"a": rand(2), "b": rand(2)})
def dict_in_and_out(self, x):
    return {"sum": x["a"] + x["b"], "difference": x["a"] - x["b"]}


@case([rand(2), (rand(2), [rand(2)])])
def nested_lists(self, x):
    a, (b, (c,)) = x
    return [a + b, (c, [a])]


@case(Pair(rand(2), rand(2)))
def named_tuple(self, pair):
    return Pair(pair.second, pair.first * 2)


@case(Features(rand(2, 3), rand(2, 3)))
def dataclass_with_mask(self, x):
    return Features(x.values * x.mask)


@case(Features(rand(2, 3)))
def dataclass_without_mask(self, x):
    return Features(x.values if x.mask is None else x.values * x.mask, x.values + 1)


@case(rand(2), None)
def none_among_inputs(self, x, y):
    return (x if y is None else x + y), None


@case(rand(2))
def default_argument(self, x, scale=3, bias=None):
    return x * scale if bias is None else x * scale + bias


@case(rand(2), kwargs={"bias": rand(2)})
def keyword_only(self, x, *, bias, flip=False):
    return bias - x if flip else x + bias


@case(rand(2), kwargs={"second": rand(2), "first": rand(2)})
def keywords_in_another_order(self, x, first, second):
    return x + first * 2 - second


@case(rand(2), rand(2), rand(2))
def any_number_of_inputs(self, *xs):
    return sum(x * i for i, x in enumerate(xs))


@case(rand(2), kwargs={"a": rand(2), "b": rand(2)})
def any_keywords(self, x, **others):
    for name, value in others.items():
        x = x + value * len(name)
    return x


@case(rand(2), 3, 0.5, True, "square")
def numbers_and_texts(self, x, n, factor, negate, mode):
    x = x**n if mode == "square" else x
    return -x * factor if negate else x


@case(rand(3))
def mixed_outputs(self, x):
    return x, 3, None, 0.5, "done", x.shape[0], [True]


@case(rand(2, 3), shapes={"x": {0: batch}}, others=[(rand(5, 3),)])
def sizes_as_outputs(self, x):
    return x.shape[0], x.numel(), x * 2


@case(collections.OrderedDict(b=rand(2), a=rand(2)))
def ordered_dict(self, x):
    return collections.OrderedDict(reversed([(k, v * 2) for k, v in x.items()]))


@case({"outer": {"inner": [rand(2), None, {"x": rand(2)}]}, "n": 2})
def deep_tree(self, tree):
    inner = tree["outer"]["inner"]
    return {"result": inner[0] * tree["n"] + inner[2]["x"], "none": inner[1]}


@case(rand(2))
def the_same_output_twice(self, x):
    y = x + 1
    return y, y, {"again": y}


@case(rand(2), rand(2))
def an_input_is_returned(self, x, y):
    return x, y + 1


@case(rand(2), rand(2))
def an_input_is_not_used(self, x, unused):
    return x * 2


@case()
def no_inputs(self):
    return torch.arange(4) * 2


@case(rand(3), [rand(3), rand(3)], shapes=({0: batch}, [{0: batch}, {0: batch}]), others=[(rand(5), [rand(5), rand(5)])])
def dynamic_in_a_list(self, x, others):
    return torch.stack([x, *others]).mean(0)


@case({"x": rand(2, 3), "y": rand(2)}, shapes=({"x": {0: batch}, "y": {0: batch}},), others=[({"x": rand(4, 3), "y": rand(4)},)])
class DictToHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"mean": nn.Linear(3, 1), "scale": nn.Linear(3, 1)})

    def forward(self, features):
        return {name: head(features["x"]).squeeze(-1) * features["y"] for name, head in self.heads.items()}
