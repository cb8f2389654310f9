# A graph as a module: its code can be read; a program's graph is called by ExportedProgram.module().
import sys
import textwrap

from torch.fx.graph import Graph, spell
from torch.nn.modules.module import Module

__all__ = ["GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class GraphModule(Module):
    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        self.graph = graph
        self.meta = {}
        graph.owning_module = self
        for name, child in (root.items() if isinstance(root, dict) else ()):
            setattr(self, name, child)

    @property
    def code(self):
        return "\n\n\n" + spell(self.graph, verbose=False) + "    "

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        body = textwrap.indent(spell(self.graph, verbose=True), "    ")
        for name, child in self._modules.items():
            if isinstance(child, GraphModule):
                body += "\n" + textwrap.indent(child.print_readable(False).replace("GraphModule", name, 1), "    ")
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}"
        if print_output:
            print(text)
        return text

    def recompile(self):
        return self.graph.python_code()

    def forward(self, *args, **kwargs):
        raise RuntimeError("the graph of an ExportedProgram takes its state as inputs; call exported_program.module() instead")

    def __str__(self):
        return f"GraphModule()\n\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"
