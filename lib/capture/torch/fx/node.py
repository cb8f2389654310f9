# One node of a graph, and what is known of its value: a FakeTensor has a shape and a type, and no data.
from torch._size import Size

__all__ = ["Argument", "Node", "Target", "map_aggregate", "map_arg"]

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


def map_aggregate(argument, function):
    """`function` of everything in tuples, lists, dicts and slices, at any depth."""
    if isinstance(argument, tuple):
        items = [map_aggregate(item, function) for item in argument]
        return type(argument)(*items) if hasattr(argument, "_fields") else tuple(items)
    if isinstance(argument, list):
        return [map_aggregate(item, function) for item in argument]
    if isinstance(argument, dict):
        return {key: map_aggregate(item, function) for key, item in argument.items()}
    if isinstance(argument, slice):
        return slice(*(map_aggregate(item, function) for item in (argument.start, argument.stop, argument.step)))
    return function(argument)


def map_arg(argument, function):
    return map_aggregate(argument, lambda item: function(item) if isinstance(item, Node) else item)


class Node:
    """op is placeholder, get_attr, call_function, call_method, call_module or output; args may hold nodes at any depth."""

    def __init__(self, graph, name, op, target, args=(), kwargs=None):
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = None
        self.meta = {}
        self.users = {}  # node -> None, in order
        self._erased = None  # the nodes that were beside it
        self._args, self._kwargs = (), {}
        self._set(tuple(args), dict(kwargs or {}))

    def _set(self, args, kwargs):
        for operand in self.all_input_nodes:
            operand.users.pop(self, None)
        self._args, self._kwargs = args, kwargs
        for operand in self.all_input_nodes:
            operand.users[self] = None

    @property
    def args(self):
        return self._args

    @args.setter
    def args(self, args):
        self._set(tuple(args), self._kwargs)

    @property
    def kwargs(self):
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs):
        self._set(self._args, dict(kwargs))

    @property
    def all_input_nodes(self):
        found = {}
        map_arg((self._args, self._kwargs), lambda node: found.setdefault(node))
        return list(found)

    def update_arg(self, idx, arg):
        self.args = (*self.args[:idx], arg, *self.args[idx + 1 :])

    def insert_arg(self, idx, arg):
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key, arg):
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input, new_input):
        args, kwargs = map_arg((self._args, self._kwargs), lambda node: new_input if node is old_input else node)
        self._set(args, kwargs)

    def replace_all_uses_with(self, replace_with, delete_user_cb=lambda user: True, *, propagate_meta=False):
        if propagate_meta:
            replace_with.meta.update({key: value for key, value in self.meta.items() if key not in replace_with.meta})
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def prepend(self, x):
        self.graph._move(x, self, 0)

    def append(self, x):
        self.graph._move(x, self, 1)

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
            default = f"(default={self.args[0]!r})" if self.op == "placeholder" and self.args else ""
            if self.op in ("call_method", "call_module"):
                default = f"(args = {_percent(self.args)}, kwargs = {_percent(self.kwargs)})"
            return f"{shown}[target={self.target}]{default}"
        return f"{shown}[target={_qualified(self.target)}](args = {_percent(self.args)}, kwargs = {_percent(self.kwargs)})"

    def __repr__(self):
        return self.name

    def __lt__(self, other):
        nodes = self.graph._nodes
        return nodes.index(self) < nodes.index(other)


def _qualified(target):
    if hasattr(target, "namespace"):
        return f"torch.ops.{target}"
    module = {"_atenon": "torch", "_operator": "operator", "torch._functional": "torch.functional"}.get(target.__module__, target.__module__)
    return f"{module}.{target.__name__}"


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
