# torch.fx.symbolic_trace: runs forward once with a Proxy for each argument. Modules of torch.nn are one node each.
import contextlib
import functools
import inspect
import math

import torch
from torch.fx.graph import Graph
from torch.fx.graph_module import GraphModule
from torch.fx.node import map_aggregate
from torch.fx.proxy import Proxy, TracerBase
from torch.nn.modules.module import Module

__all__ = ["Tracer", "symbolic_trace"]


@contextlib.contextmanager
def _in_place_of(names, is_replaced, replacement):
    """While in here what `names`, a module's, gives is the replacement of it."""
    given = {name: value for name, value in names.items() if not name.startswith("_") and is_replaced(value)}
    names.update((name, replacement(value)) for name, value in given.items())
    try:
        yield
    finally:
        names.update(given)


class Tracer(TracerBase):
    """Functions of `autowrap_modules` and `autowrap_functions` are one node each, as far as they are called by a global name."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        self.root = None
        self._modules_of_nodes = autowrap_modules
        self._functions_of_nodes = {id(function): function for module in autowrap_modules for name, function in vars(module).items()
                                    if not name.startswith("_") and callable(function) and not isinstance(function, type)}
        self._functions_of_nodes |= {id(function): function for function in autowrap_functions}

    def _calling_nodes(self, names):
        return _in_place_of(names, lambda value: id(value) in self._functions_of_nodes, self._node_of)

    def _node_of(self, function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            proxies = []
            map_aggregate((args, kwargs), lambda a: proxies.append(a) if isinstance(a, Proxy) else None)
            return self.create_proxy("call_function", function, args, kwargs) if proxies else function(*args, **kwargs)

        return call

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
        self.graph._tracer_cls = type(self)
        plain_call, tracer = Module.__call__, self

        def call(module, *args, **kwargs):
            def forward(*args, **kwargs):
                with tracer._calling_nodes(getattr(module.forward, "__globals__", {})):
                    return plain_call(module, *args, **kwargs)

            return tracer.call_module(module, forward, args, kwargs)

        args, kwargs = self._arguments(function)
        Module.__call__ = call
        try:
            with contextlib.ExitStack() as stack:
                for names in (*map(vars, self._modules_of_nodes), getattr(function, "__globals__", {})):
                    stack.enter_context(self._calling_nodes(names))
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
