# What an optimizer is where nothing is trained: files make one beside their model. It holds what it is given, and does not step.
import collections
import copy
import typing

import torch
from torch import _placeholder

ParamsT = typing.Iterable
Args = tuple[typing.Any, ...]
Kwargs = dict[str, typing.Any]
StateDict = dict[str, typing.Any]
DeviceDict = dict[torch.device | None, torch.Tensor]
DeviceDtypeDict = dict[tuple[torch.device, torch.dtype] | None, torch.Tensor]
_foreach_doc = "foreach (bool, optional): whether many parameters are updated at once"
_fused_doc = "fused (bool, optional): whether the fused implementation is used"
_capturable_doc = "capturable (bool, optional): whether a step may be captured in a CUDA graph"
_differentiable_doc = "differentiable (bool, optional): whether derivatives go through a step"
_maximize_doc = "maximize (bool, optional): whether the objective is maximized"
required = object()


class Optimizer:
    def __init__(self, params, defaults):
        self.defaults = dict(defaults)
        self.state = collections.defaultdict(dict)
        self.param_groups = []
        groups = [params] if isinstance(params, torch.Tensor) else list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        given = param_group["params"]
        parameters = [named[-1] if isinstance(named, tuple) else named for named in ([given] if isinstance(given, torch.Tensor) else given)]
        for parameter in parameters:
            if not isinstance(parameter, torch.Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(parameter).__name__}")
        self.param_groups.append({**self.defaults, **param_group, "params": parameters})

    def zero_grad(self, set_to_none=True):
        pass

    def state_dict(self):
        first, groups = 0, []
        for group in self.param_groups:
            groups.append({**group, "params": list(range(first, first + len(group["params"])))})
            first += len(group["params"])
        return {"state": dict(self.state), "param_groups": groups}

    def load_state_dict(self, state_dict):
        given = copy.deepcopy(state_dict)
        if [len(group["params"]) for group in given["param_groups"]] != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        for mine, other in zip(self.param_groups, given["param_groups"]):
            mine.update({key: value for key, value in other.items() if key != "params"})

    step = _placeholder.refused("an optimizer's step", "no program is trained; load trained weights")
