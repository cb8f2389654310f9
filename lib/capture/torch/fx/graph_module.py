# A graph as a module: its code can be read, and one that was traced or put together runs node by node. A program's graph is
# called by ExportedProgram.module().
import copy
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


def _refuse(*args, **kwargs):
    raise RuntimeError("the graph of an ExportedProgram takes its state as inputs; call exported_program.module() instead")


class _Forward:
    """A method of each GraphModule's own, which takes what its graph takes, by name."""

    def __call__(self, module, *args, **kwargs):
        return self.__get__(module, type(module))(*args, **kwargs)

    def __get__(self, module, kind):
        if module is None:
            return self
        graph = module._compiled
        if graph._is_view:
            return _refuse
        places = graph.find_nodes(op="placeholder")
        taken = [f"{node.target}=defaults[{i}]" if node.args else node.target for i, node in enumerate(places)]
        rest = next((i for i, node in enumerate(places) if node.target.startswith("*")), len(places))
        given = [f"{node.target}={node.target}" if i > rest and node.target[0] != "*" else node.target for i, node in enumerate(places)]
        run = "_" * (1 + max((len(node.target) for node in places), default=0))  # no argument's name
        scope = {"defaults": [node.args[0] if node.args else None for node in places], run: Interpreter(module, graph=graph).run}
        exec(compile(f"def forward({', '.join(taken)}): return {run}({', '.join(given)})", __file__, "exec"), scope)
        return scope["forward"]


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

    forward = _Forward()

    def __str__(self):
        return f"GraphModule()\n\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"
