# Stand-ins for values while a graph is put together: what is done with a Proxy becomes a node.
import dis
import operator
import sys

from torch import _dtypes
from torch.fx.node import Node, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]


class TraceError(ValueError):
    """Python asked a Proxy what only a value can answer."""


class _NotIterable(TraceError, TypeError):
    """A TypeError too: operators look whether an argument is a sequence before they ask its class."""


_PLAIN = (str, int, float, complex, bool, type(None), type(...), range, _dtypes.dtype, _dtypes.layout, _dtypes.memory_format)


class TracerBase:
    graph = None

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node):
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        node = self.create_node(kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a):
        return map_aggregate(a, self._leaf)

    def _leaf(self, a):
        from torch import device

        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, (Node, *_PLAIN, device)) or callable(a):
            return a
        return self.create_attribute(a)

    def create_attribute(self, a):
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj):
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        """The items of a Proxy, where the caller's code unpacks a known number of them."""
        frame = sys._getframe(2)  # of who iterates
        step = next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)
        if step is not None and step.opname == "UNPACK_SEQUENCE":
            return (obj[i] for i in range(step.argval))
        raise _NotIterable("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a "
                           "*args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed "
                           "explanation of what types of control flow can be traced, and check out the Proxy docstring for "
                           "help troubleshooting Proxy iteration errors")

    def keys(self, obj):
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    def __init__(self, graph):
        self.graph = graph
        self.root = None


class Proxy:
    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, k):
        if k.startswith("__") and k.endswith("__"):  # Python asks for these itself: copy, pickle, arrays
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        return self.tracer.iter(self)

    def __bool__(self):
        return self.tracer.to_bool(self)

    def keys(self):
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
                           "please call torch.fx.wrap('len') at module scope")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        tracers = []
        map_aggregate((args, kwargs or {}), lambda a: tracers.append(a.tracer) if isinstance(a, Proxy) else None)
        return tracers[0].create_proxy("call_function", function, args, kwargs or {})


class Attribute(Proxy):
    """x.name: called, a method; else an attribute, whose node is made when it is asked for."""

    def __init__(self, root, attr):
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node = None

    @property
    def node(self):
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _forwards(function):
    def call(*args):
        tracer = next(a.tracer for a in args if isinstance(a, Proxy))
        return tracer.create_proxy("call_function", function, args, {})

    return call


def _backwards(function):
    return lambda self, other: self.tracer.create_proxy("call_function", function, (other, self), {})


_REFLECTED = ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "matmul")
for _name in (*_REFLECTED, "eq", "ne", "lt", "gt", "le", "ge", "pos", "neg", "invert", "getitem"):
    setattr(Proxy, f"__{_name.rstrip('_')}__", _forwards(getattr(operator, _name)))
for _name in _REFLECTED:
    setattr(Proxy, f"__r{_name.rstrip('_')}__", _backwards(getattr(operator, _name)))
Proxy.__hash__ = Attribute.__hash__ = object.__hash__
