# How the models of this folder are written: each @case is a forward, or a module's class, with example inputs.
#
# The same files run under PyTorch and under `atenon capture --script`: describe.py says in JSON what an export of each gives.
# Inputs and parameters are drawn from the same generator on both sides, uniform numbers are equal bit for bit.
import dataclasses

import torch

cases = []
torch.manual_seed(0)


@dataclasses.dataclass
class Case:
    name: str
    model: torch.nn.Module
    args: tuple
    kwargs: dict
    shapes: object  # dynamic_shapes
    others: list  # further args that the program must take


def case(*args, kwargs=None, shapes=None, others=()):
    """A decorator for `def forward(self, ...)` or a class of modules."""

    def add(thing):
        torch.manual_seed(len(cases))
        model = thing() if isinstance(thing, type) else type(thing.__name__, (torch.nn.Module,), {"forward": thing})()
        cases.append(Case(thing.__name__, model.eval(), args, kwargs or {}, shapes, list(others)))
        return thing

    return add


def rand(*sizes):
    """From -1 to 1."""
    return torch.rand(sizes) * 2 - 1


def ints(*sizes, high=4):
    return torch.arange(torch.Size(sizes).numel()).reshape(sizes) % high


def by_size(make, *sizes):
    """Further inputs of other sizes: by_size(lambda n: rand(n, 4), 1, 7)."""
    return [(made,) if isinstance(made := make(size), torch.Tensor) else made for size in sizes]
