# A graph as a module: its code can be read, and one that was traced or put together runs node by node. A program's graph is
# called by ExportedProgram.module().
import copy
import inspect
import sys
import textwrap

import torch
from torch.fx.graph import Graph, spell
from torch.fx.interpreter import Interpreter
from torch.nn.modules.module import Module

__all__ = ["GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def _assign(root, target, value):
    *path, name = target.split(".")
    for step in path:
        if not hasattr(root, step):
            root.add_module(step, Module())
        root = getattr(root, step)
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)


def _copy_attr(from_module, to_module, target):
    first, _, rest = target.partition(".")
    value = getattr(from_module, first)
    if not rest:
        _assign(to_module, first, value)
    elif getattr(to_module, first, None) is not value:  # else it has come as a whole
        if not hasattr(to_module, first):
            to_module.add_module(first, Module())
        _copy_attr(value, getattr(to_module, first), rest)


class GraphModule(Module):
    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        if class_name != type(self).__name__:
            self.__class__ = type(class_name, (type(self),), {"__module__": __name__})
        self.graph = graph
        self.meta = {}
        if isinstance(root, dict):
            for name, child in sorted(root.items(), key=lambda item: item[0].count(".")):
                _assign(self, name, child)
            return
        self.training = root.training
        for target in dict.fromkeys(node.target for node in graph.nodes if node.op in ("get_attr", "call_module")):
            _copy_attr(root, self, target)

    @property
    def graph(self):
        return self._graph

    @graph.setter
    def graph(self, graph):
        self._graph = graph
        graph.owning_module = self
        self._compile()

    @property
    def code(self):
        return "\n\n\n" + spell(self._compiled, verbose=False) + "    "

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        body = textwrap.indent(spell(self._compiled, verbose=True), "    ")
        for name, child in self._modules.items():
            if isinstance(child, GraphModule):
                body += "\n" + textwrap.indent(child.print_readable(False).replace("GraphModule", name, 1), "    ")
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}"
        if print_output:
            print(text)
        return text

    def _compile(self):
        self._compiled = self._graph if self._graph._is_view else copy.deepcopy(self._graph)

    def recompile(self):
        """Takes over what the graph has become: until then the module runs as it was."""
        self._compile()
        return self._compiled.python_code()

    def forward(self, *args, **kwargs):
        graph = self._compiled
        if graph._is_view:
            raise RuntimeError("the graph of an ExportedProgram takes its state as inputs; call exported_program.module() instead")
        places = graph.find_nodes(op="placeholder")
        if kwargs and not any(node.target.startswith("*") for node in places):
            names = [inspect.Parameter(node.target, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                       default=node.args[0] if node.args else inspect.Parameter.empty) for node in places]
            bound = inspect.Signature(names).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, {}
        return Interpreter(self, graph=graph).run(*args, **kwargs)

    def __str__(self):
        return f"GraphModule()\n\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"
