# torch.fx as far as exported programs need it: graphs that scripts look at. They are a view of a program, made when first
# asked for; what is changed in them does not change the program.
from torch.fx.graph import Graph
from torch.fx.graph_module import GraphModule
from torch.fx.node import Node

__all__ = ["Graph", "GraphModule", "Node", "wrap"]


def wrap(function):
    return function
