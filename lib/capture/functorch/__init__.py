# functorch, the older name of some of torch's functions: what model files still import from it.
import copy

import torch
from torch import nn
from torch._placeholder import make
from torch.func import *
from torch.func import functional_call

make_fx = make("functorch.make_fx")


def _names(members):
    """The members' names, each tensor's first, and all the names of each."""
    names = {}
    for name, tensor in members(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    return {first: [first, *others] for first, *others in names.values()}


class FunctionalModuleWithBuffers(nn.Module):
    """A module that is called with the values of its parameters and buffers, in the order of its own."""

    def __init__(self, stateless_model, param_names, buffer_names, param_names_map, buffer_names_map):
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    @classmethod
    def _create_from(cls, model, disable_autograd_tracking=False):
        model = copy.deepcopy(model)
        parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
        made = cls(model, tuple(parameters), tuple(buffers), _names(model.named_parameters), _names(model.named_buffers))
        if disable_autograd_tracking:
            for parameter in parameters.values():
                parameter.requires_grad_(False)
        return made, tuple(parameters.values()), tuple(buffers.values())

    def forward(self, params, buffers, *args, **kwargs):
        given = (*params, *buffers)
        state = {path: value for paths, value in zip(self.all_names_map.values(), given) for path in paths}
        return functional_call(self.stateless_model, state, args, kwargs, tie_weights=False)


class FunctionalModule(FunctionalModuleWithBuffers):
    """The same of a module without buffers."""

    def __init__(self, stateless_model, param_names, names_map):
        super().__init__(stateless_model, param_names, (), names_map, {})

    @classmethod
    def _create_from(cls, model, disable_autograd_tracking=False):
        made, parameters, _ = FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)
        return cls(made.stateless_model, made.param_names, _names(made.stateless_model.named_parameters)), parameters

    def forward(self, params, *args, **kwargs):
        return super().forward(params, (), *args, **kwargs)


def make_functional(model, disable_autograd_tracking=False):
    if next(model.buffers(), None) is not None:
        raise RuntimeError("make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.")
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(models):
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, parameters, buffers = zip(*(make_functional_with_buffers(model) for model in models))

    def stacked(states):
        return tuple(torch.stack([value.detach() for value in values]).requires_grad_(values[0].requires_grad) for values in zip(*states))

    return functions[0], stacked(parameters), stacked(buffers)
