# Runs the nodes of a graph one by one; a subclass says what a node of one kind does.
import functools

from torch.fx.node import Node, map_arg

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module = module
        self.graph = module.graph if graph is None else graph
        self.garbage_collect_values = garbage_collect_values
        self.env = {}
        self.args_iter = iter(())
        self._keywords = {}

    def run(self, *args, initial_env=None, enable_io_processing=True, **kwargs):
        self.env = dict(initial_env or {})
        self.args_iter, self._keywords = iter(args), kwargs
        last = {operand: node for node in self.graph.nodes for operand in node.all_input_nodes}
        gone = {}
        for operand, node in last.items():
            gone.setdefault(node, []).append(operand)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            if node.op == "output":
                self._refuse_the_rest()
                return self.env[node]
            for operand in gone.get(node, ()) if self.garbage_collect_values else ():
                del self.env[operand]
        return None

    def _refuse_the_rest(self):
        left = list(self.args_iter)
        if left or self._keywords:
            raise TypeError(f"{len(left) + len(self._keywords)} more arguments were given than the graph has placeholders")

    def run_node(self, n):
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target, args, kwargs):
        if target.startswith("**"):
            kwargs, self._keywords = self._keywords, {}
            return kwargs
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            pass
        if target in self._keywords:
            return self._keywords.pop(target)
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target, args, kwargs):
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target, args, kwargs):
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        return args[0]

    def fetch_attr(self, target):
        return functools.reduce(getattr, target.split("."), self.module)

    def fetch_args_kwargs_from_env(self, n):
        return self.map_nodes_to_values((n.args, n.kwargs), n)

    def map_nodes_to_values(self, args, n):
        return map_arg(args, self.env.__getitem__)


class Transformer(Interpreter):
    """An Interpreter whose values are Proxies: transform() gives the graph that they leave behind."""

    def __init__(self, module):
        from torch.fx.graph import Graph
        from torch.fx.proxy import GraphAppendingTracer

        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = GraphAppendingTracer(self.new_graph)
        self.tracer.root = module

    def _proxy(self, node):
        from torch.fx.proxy import Proxy

        return Proxy(node, self.tracer)

    def placeholder(self, target, args, kwargs):
        return self._proxy(self.new_graph.placeholder(target, default_value=args[0] if args else ...))

    def get_attr(self, target, args, kwargs):
        return self._proxy(self.new_graph.get_attr(target))

    def call_module(self, target, args, kwargs):
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        from torch.fx.graph_module import GraphModule

        result = self.run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(map_proxies(result))
        return GraphModule(self.module, self.new_graph)


def map_proxies(value):
    from torch.fx.node import map_aggregate
    from torch.fx.proxy import Proxy

    return map_aggregate(value, lambda item: item.node if isinstance(item, Proxy) else item)
