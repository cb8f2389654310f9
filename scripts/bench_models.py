"""The models that scripts/bench measures: build(NAME, batch) gives a module whose results are flat, and its inputs.

NAME is one of testdata/models, a file.py written like those, or LIBRARY:MODEL of scripts/bench.json (real sizes) or, where that has none,
of scripts/zoo-pt2.json (small ones). Any model of timm or torchvision is `timm+:MODEL` or `torchvision+:MODEL`, where the list has no
other options for it at the size that it was made for. `layers` are written out in bench.json, as Python over torch.nn, with the sizes of their input.
`zoo:MODEL` is the model file that scripts/zoo takes through capture.
"""
import functools
import importlib.machinery
import importlib.util
import json
import os
import sys

SCRIPTS = os.path.dirname(os.path.abspath(__file__))
OUR_OWN = ["mlp", "resnet50", "mobilenet_v2", "bert", "vit_b16", "gpt2", "gpt2_decode", "unet", "lstm"]
UNLISTED = {"timm": {"size": None}, "torchvision": {}}  # options of models that bench.json does not have


def listed(file):
    with open(os.path.join(SCRIPTS, file)) as text:
        return json.load(text)


def names(library=None):
    """All LIBRARY:MODEL of the lists; real sizes are marked by a `+`."""
    found = []
    for file, mark in (("bench.json", "+"), ("zoo-pt2.json", "")):
        for group, models in listed(file).items():
            found += [f"{group}{mark}:{model}" for model in models]
    found += [f"zoo:{entry[0]}" for group in ("timm", "transformers") for entry in listed("zoo.json")[group]]
    return [name for name in found if library is None or name.split(":")[0] == library]


def source(name):
    """The file of a model that is one, else None."""
    if ":" in name:
        return None
    return name if name.endswith(".py") else os.path.join(os.path.dirname(SCRIPTS), "testdata", "models", name + ".py")


def from_file(path, batch):
    import torch

    spec = importlib.util.spec_from_file_location("model_file", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for theirs there
    spec.loader.exec_module(module)
    inputs = list(module.inputs())
    if batch > 1:
        shapes = list(module.dynamic_shapes().values())
        for i, axes in enumerate(shapes):
            for axis, dimension in axes.items():
                if getattr(dimension, "__name__", "") == "batch":
                    inputs[i] = torch.cat([inputs[i]] * batch, axis).contiguous()
    return module.model(), tuple(inputs)


def from_library(name, batch):
    import torch

    library, model = name.split(":")
    if library == "zoo":
        return from_zoo(model, batch)
    real = library.endswith("+")
    library = library.rstrip("+")
    known = listed("bench.json" if real else "zoo-pt2.json")[library]
    options = UNLISTED[library] if real and model not in known and library in UNLISTED else known[model]
    if library == "layers":
        torch.manual_seed(0)
        code, *sizes = options
        names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
        net = eval(code, names)
        if not isinstance(net, torch.nn.Module):
            net = type(model, (torch.nn.Module,), {"forward": lambda self, *x, f=net: f(*x)})()
        return net, tuple(torch.randn(batch, *size) for size in sizes)
    return zoo_pt2().build(library, model, options, batch, 128 if real else 12)


def from_zoo(name, batch):
    import torch

    zoo_pt2()  # declares what timm imports
    zoo = script("zoo")
    text = next(zoo.text_of(library, entry) for library in ("timm", "transformers") for entry in zoo.ZOO[library] if entry[0] == name)
    scope = {}
    exec(text, scope)
    return scope["model"](), tuple(torch.cat([x] * batch) for x in scope["inputs"]())


@functools.cache
def zoo_pt2():
    module = script("zoo-pt2")
    module.declare_torchvision()
    return module


def script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(SCRIPTS, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def build(name, batch=1):
    import torch

    net, inputs = from_library(name, batch) if ":" in name else from_file(source(name), batch)
    pytree = torch.utils._pytree
    arguments, structure = pytree.tree_flatten(inputs if isinstance(inputs, dict) else tuple(inputs))
    given = [i for i, argument in enumerate(arguments) if isinstance(argument, torch.Tensor)]

    class Flat(torch.nn.Module):  # every peer takes and returns a flat tuple of tensors
        def __init__(self):
            super().__init__()
            self.inner = net

        def forward(self, *tensors):
            leaves = list(arguments)
            for i, tensor in zip(given, tensors):
                leaves[i] = tensor
            nested = pytree.tree_unflatten(leaves, structure)
            result = self.inner(**nested) if isinstance(nested, dict) else self.inner(*nested)
            leaves = pytree.tree_leaves(result)  # a number is a result, too
            return tuple(torch.as_tensor(leaf) for leaf in leaves if isinstance(leaf, (torch.Tensor, bool, int, float)))

    flat = Flat().eval()
    for parameter in flat.parameters():
        parameter.requires_grad_(False)
    return flat, tuple(arguments[i] for i in given)
