# torch.fx: graphs that scripts look at, which are views of a program made when first asked for (what is changed in them does
# not change the program), and graphs that libraries trace, write and run in their models.
from torch.fx import _pytree
from torch.fx._symbolic_trace import Tracer, symbolic_trace
from torch.fx.graph import Graph
from torch.fx.graph_module import GraphModule
from torch.fx.interpreter import Interpreter, Transformer
from torch.fx.node import Node, map_arg
from torch.fx.proxy import Proxy

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "map_arg", "symbolic_trace", "wrap"]


def wrap(function):
    return function
