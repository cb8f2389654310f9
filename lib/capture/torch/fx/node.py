# One node of a graph, and what is known of its value: a FakeTensor has a shape and a type, and no data.
from torch._size import Size

__all__ = ["Argument", "Node", "Target"]

Target = object
Argument = object


class FakeTensor:
    """Shape, type and strides of a value of the graph."""

    def __init__(self, dtype, shape, strides=None):
        self.dtype = dtype
        self.shape = Size(shape)
        self._strides = strides
        self.requires_grad = False

    @property
    def device(self):
        from torch import device

        return device("cpu")

    @property
    def ndim(self):
        return len(self.shape)

    def dim(self):
        return len(self.shape)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim=None):
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step = step * size
        strides = tuple(strides) if self._strides is None else tuple(self._strides)
        return strides if dim is None else strides[dim]

    def numel(self):
        return self.shape.numel()

    def is_contiguous(self):
        return self._strides is None

    def __repr__(self):
        kind = "" if str(self.dtype) == "torch.float32" else f", dtype={self.dtype}"
        return f"FakeTensor(..., size=({', '.join(map(str, self.shape))}{',' if self.ndim == 1 else ''}){kind})"


def fake_value(type):
    """From the native module's description of a type: ("tensor", dtype, sizes, strides), ("int",), ..."""
    return FakeTensor(*type[1:]) if type[0] == "tensor" else type[0]


class Node:
    """op is placeholder, get_attr, call_function or output; args may hold nodes at any depth."""

    def __init__(self, graph, name, op, target, args=(), kwargs=None):
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.meta = {}
        self.users = {}  # node -> None, in order
        for operand in self.all_input_nodes:
            operand.users[self] = None

    @property
    def all_input_nodes(self):
        found = {}
        pending = [self.args, self.kwargs]
        while pending:
            item = pending.pop(0)
            if isinstance(item, Node):
                found[item] = None
            elif isinstance(item, dict):
                pending[:0] = item.values()
            elif isinstance(item, (tuple, list)):
                pending[:0] = item
        return list(found)

    @property
    def stack_trace(self):
        return self.meta.get("stack_trace")

    @property
    def next(self):
        nodes = self.graph._nodes
        return nodes[nodes.index(self) + 1]

    @property
    def prev(self):
        nodes = self.graph._nodes
        return nodes[nodes.index(self) - 1]

    def is_impure(self):
        return self.op in ("placeholder", "output")

    def format_node(self):
        if self.op == "output":
            return f"return {self.args[0]}"
        shown = f"%{self.name} : [num_users={len(self.users)}] = {self.op}"
        if self.op != "call_function":
            return f"{shown}[target={self.target}]"
        return f"{shown}[target={_qualified(self.target)}](args = {_percent(self.args)}, kwargs = {_percent(self.kwargs)})"

    def __repr__(self):
        return self.name

    def __lt__(self, other):
        nodes = self.graph._nodes
        return nodes.index(self) < nodes.index(other)


def _qualified(target):
    return f"torch.ops.{target}" if hasattr(target, "namespace") else f"{target.__module__}.{target.__name__}"


def _percent(value):
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_percent, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_percent, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_percent(item)}" for key, item in value.items()) + "}"
    return str(value)
