"""A model file for `atenon capture`: runs a batch of operator calls, eagerly and traced. Written and read by conformance-ops.

The batch lies beside this file, as batch.json: calls [operator, arguments, keywords, fails], tensors [dtype, numbers, sizes, strides,
offset] that calls name by {"t": position}. What came out eagerly goes to eager.json; which calls the graph's outputs
belong to, and which could not be traced, to traced.json.
"""
import functools
import json
import os

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "batch.json")) as file:
    batch = json.load(file)
REAL = {"complex64": "float32", "complex128": "float64"}


def base(spec):
    """The elements of a tensor, in the order of its storage."""
    dtype, numbers = spec[:2]
    if dtype not in REAL:
        return torch.tensor(numbers, dtype=getattr(torch, dtype))
    return torch.view_as_complex(torch.tensor(numbers, dtype=getattr(torch, REAL[dtype])).reshape(-1, 2))


def shaped(tensor, spec):
    _, _, sizes, strides, offset = spec
    return tensor.reshape(sizes) if strides is None else tensor.as_strided(sizes, strides, offset)


def decoded(value, tensors):
    if isinstance(value, dict):
        (kind, content), = value.items()
        return tensors(content) if kind == "t" else getattr(torch, content) if kind == "d" else complex(*content)
    if isinstance(value, list):
        return [decoded(item, tensors) for item in value]
    return value


def operator(target):
    if not target.startswith("aten::"):
        return functools.reduce(getattr, target.split(".")[1:], torch)
    name, _, overload = target.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, name)
    return getattr(packet, overload or "default") if overload != "*" else packet


def run(call, tensors):
    target, args, kwargs = call[:3]
    args = decoded(args, tensors)
    if target.startswith("aten::") and target.split(".")[0].endswith("_") and not target.split(".")[0].endswith("__"):
        args[0] = args[0].clone()  # what it writes to is no other call's operand
    return operator(target)(*args, **{name: decoded(value, tensors) for name, value in kwargs.items()})


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (list, tuple)) else [value]


def encoded(value):
    if not isinstance(value, torch.Tensor):
        return [type(value).__name__, [], value]
    numbers = torch.view_as_real(value) if value.is_complex() else value
    return [str(value.dtype).removeprefix("torch."), list(value.shape), numbers.reshape(-1).tolist()]


def said(problem):
    return {"error": f"{type(problem).__name__}: {problem}"}


def model():
    results = []
    tensors = {}

    def real(i):
        if i not in tensors:
            tensors[i] = shaped(base(batch["tensors"][i]), batch["tensors"][i])
        return tensors[i]

    for call in batch["calls"]:
        try:
            results.append([encoded(leaf) for leaf in leaves(run(call, real))])
        except Exception as problem:
            results.append(said(problem))
    with open(os.path.join(HERE, "eager.part"), "w") as file:
        json.dump(results, file)
    os.replace(os.path.join(HERE, "eager.part"), os.path.join(HERE, "eager.json"))  # whole or not at all: a slow batch is stopped
    return Calls([i for i, result in enumerate(results) if isinstance(result, list) and not batch["calls"][i][3]])


class Calls(torch.nn.Module):
    def __init__(self, chosen):
        super().__init__()
        self.chosen = chosen

    def forward(self, tensors):
        outputs, traced = [], {}
        for i in self.chosen:
            try:
                out = run(batch["calls"][i], lambda t: shaped(tensors[t], batch["tensors"][t]))
            except Exception as problem:
                traced[i] = said(problem)
                continue
            found = [leaf for leaf in leaves(out) if isinstance(leaf, torch.Tensor)]
            traced[i] = [len(outputs), len(found)]
            outputs += found
        with open(os.path.join(HERE, "traced.json"), "w") as file:
            json.dump(traced, file)
        return outputs


def inputs():
    return ([base(spec) for spec in batch["tensors"]],)
