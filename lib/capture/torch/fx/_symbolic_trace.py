# torch.fx.symbolic_trace: runs forward once with a Proxy for each argument. Modules of torch.nn are one node each.
import inspect

import torch
from torch.fx.graph import Graph
from torch.fx.graph_module import GraphModule
from torch.fx.proxy import TracerBase
from torch.nn.modules.module import Module

__all__ = ["Tracer", "symbolic_trace"]


class Tracer(TracerBase):
    def __init__(self, autowrap_modules=(), autowrap_functions=(), param_shapes_constant=False):
        if autowrap_functions:
            raise NotImplementedError("torch.fx.Tracer with autowrap_functions is not supported")
        self.root = None

    def is_leaf_module(self, m, module_qualified_name):
        return m.__module__.startswith(("torch.nn", "torch.ao.nn")) and not isinstance(m, torch.nn.Sequential)

    def path_of_module(self, mod):
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def create_attribute(self, a):
        if isinstance(a, torch.Tensor):
            for name, tensor in (*self.root.named_parameters(), *self.root.named_buffers()):
                if tensor is a:
                    return self.create_node("get_attr", name, (), {})
            number = 0
            while hasattr(self.root, f"_tensor_constant{number}"):
                if getattr(self.root, f"_tensor_constant{number}") is a:
                    break
                number += 1
            setattr(self.root, f"_tensor_constant{number}", a)
            return self.create_node("get_attr", f"_tensor_constant{number}", (), {})
        return super().create_attribute(a)

    def trace(self, root, concrete_args=None):
        if concrete_args is not None:
            raise NotImplementedError("torch.fx.Tracer.trace with concrete_args is not supported")
        self.root = root if isinstance(root, Module) else Module()
        function = root.forward if isinstance(root, Module) else root
        self.graph = Graph()
        plain_call, tracer = Module.__call__, self

        def call(module, *args, **kwargs):
            return tracer.call_module(module, lambda *a, **k: plain_call(module, *a, **k), args, kwargs)

        args, kwargs = self._arguments(function)
        Module.__call__ = call
        try:
            result = function(*args, **kwargs)
        finally:
            Module.__call__ = plain_call
        self.graph.output(self.create_arg(result))
        return self.graph

    def _arguments(self, function):
        args, kwargs = [], {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise NotImplementedError(f"torch.fx.Tracer traces no function with * arguments, as {parameter} is")
            default = () if parameter.default is parameter.empty else (parameter.default,)
            proxy = self.create_proxy("placeholder", parameter.name, default, {})
            if parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = proxy
            else:
                args.append(proxy)
        return args, kwargs


def symbolic_trace(root, concrete_args=None):
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
