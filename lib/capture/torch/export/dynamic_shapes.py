# Dynamic dimensions: Dim("batch", min=1, max=64), 2 * batch + 1, Dim.AUTO.
#
# `atenon capture` reads __name__, min and max of a Dim; of a derived one its root and the integers a, b of a * root + b;
# and of Dim.AUTO, DYNAMIC and STATIC their `type`.
import enum
import types

import _atenon

from torch._tensor import Tensor
from torch.utils import _pytree

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims"]

_no_limit = 2**63 - 1
_takes_more, _takes_keywords = 0x04, 0x08  # inspect.CO_VARARGS, CO_VARKEYWORDS


class _DimHintType(enum.Enum):
    AUTO = 1
    STATIC = 2
    DYNAMIC = 3


class _DimHint:
    """A dimension without a name: its size is found out, kept fixed, or dynamic in any case."""

    def __init__(self, type, min=None, max=None, _factory=True):
        self.type = type
        self.min = min
        self.max = max
        self._factory = _factory

    def __call__(self, min=None, max=None):
        if not self._factory:
            raise TypeError("'DimHint' object is not callable")
        return _DimHint(self.type, min, max, False)

    def __eq__(self, other):
        return isinstance(other, _DimHint) and (self.type, self.min, self.max) == (other.type, other.min, other.max)

    def __hash__(self):
        return hash((self.type, self.min, self.max))

    def __repr__(self):
        limits = [f"{name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None]
        return f"DimHint.{self.type.name}" + (f"({', '.join(limits)})" if limits else "")


class Dim:
    """A named dynamic dimension, from min to max."""

    AUTO = _DimHint(_DimHintType.AUTO)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    STATIC = _DimHint(_DimHintType.STATIC)

    def __init__(self, name, *, min=None, max=None):
        low, high = 0 if min is None else min, _no_limit if max is None else max
        if not high > low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min = low
        self.max = high

    def __add__(self, other):
        return self._derive(1, self._integer("adding", other))

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self._derive(1, -self._integer("subtracting", other))

    def __rsub__(self, other):
        raise NotImplementedError(f"Attempted to negate {self.__name__}. Please make sure that the root dim is positive.")

    def __mul__(self, other):
        factor = self._integer("multiplying", other)
        if factor <= 0:
            raise NotImplementedError(f"Attempted to multiply {other} with {self.__name__}: only positive integers are supported.")
        return self._derive(factor, 0)

    def __rmul__(self, other):
        return self * other

    def _integer(self, action, other):
        if type(other) is not int:
            raise NotImplementedError(f"Attempted {action} {other} and {self.__name__}: only integers are supported.")
        return other

    def _derive(self, factor, offset):
        return _DerivedDim(self, factor, offset)

    def __repr__(self):
        most = "" if self.max == _no_limit else f", max={self.max}"
        return f"Dim('{self.__name__}', min={self.min}{most})"


class _DerivedDim(Dim):
    """factor * root + offset."""

    def __init__(self, root, factor, offset):
        self.root = root
        self.factor = factor
        self.offset = offset
        product = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = product if offset == 0 else f"{product} {'+' if offset > 0 else '-'} {abs(offset)}"

    @property
    def min(self):
        return self.fn(self.root.min)

    @property
    def max(self):
        return _no_limit if self.root.max == _no_limit else self.fn(self.root.max)

    def fn(self, root):
        return self.factor * root + self.offset

    def _derive(self, factor, offset):
        return _DerivedDim(self.root, self.factor * factor, self.offset * factor + offset)

    def __repr__(self):
        return self.__name__


def dims(*names, min=None, max=None):
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """Dynamic shapes by tensor object instead of by place: collection[tensor] = (dim, None), collection[tensor][0] = dim."""

    def __init__(self):
        self._shapes = {}
        self._tensors = []  # keeps them alive: an id names only a living object

    def __setitem__(self, tensor, shape):
        if id(tensor) in self._shapes and self._shapes[id(tensor)] not in ({}, shape):
            raise AssertionError(f"Shapes assigned to tensor do not match: expected {self._shapes[id(tensor)]}, got {shape}")
        self._tensors.append(tensor)
        self._shapes[id(tensor)] = shape

    def __getitem__(self, tensor):
        self._tensors.append(tensor)
        return self._shapes.setdefault(id(tensor), {})

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        found = set()

        def shape_of(leaf):
            if id(leaf) in self._shapes:
                found.add(id(leaf))
            return self._shapes.get(id(leaf))

        shapes = {name: _pytree.tree_map(shape_of, value) for name, value in _arguments_by_name(m, args, kwargs).items()}
        if len(found) < len(self._shapes):
            raise ValueError(f"{len(self._shapes) - len(found)} of the tensors that were given shapes are not among the inputs")
        return shapes


class AdditionalInputs:
    """Further example inputs: a size that differs between the examples is dynamic."""

    def __init__(self):
        self._examples = []

    def add(self, args, kwargs=None):
        if not isinstance(args, tuple):
            raise AssertionError(f"Representative args {args} must be a tuple")
        self._examples.append((args, kwargs or {}))

    def dynamic_shapes(self, m, args, kwargs=None):
        first = _arguments_by_name(m, args, kwargs)
        others = [_arguments_by_name(m, *example) for example in self._examples]

        def shape_of(value, *rest):
            if type(value) is int and all(type(other) is int for other in rest):
                return Dim.DYNAMIC if any(other != value for other in rest) else None
            if not isinstance(value, Tensor):
                if any(other != value for other in rest):
                    raise ValueError(f"the inputs {[value, *rest]} differ, but only integers and sizes of tensors can be dynamic")
                return None
            return {axis: Dim.DYNAMIC for axis in range(value.ndim) if any(other.shape[axis] != value.shape[axis] for other in rest)}

        return _pytree.tree_map(shape_of, first, *others)

    def verify(self, ep):
        """Runs the program on every example; an assumption that one of them breaks is an error."""
        for args, kwargs in self._examples:
            ep.module()(*args, **kwargs)


# --- Matching dynamic_shapes with the inputs


def _arguments_by_name(model, args, kwargs):
    """The arguments by the names of forward's parameters, as they are bound: {"x": ..., "args": (...), "kwargs": {...}}.
    inspect.signature would tell the same, and takes longer to import than all of this package."""
    function = forward = model.forward if hasattr(model, "forward") else model
    while hasattr(function, "__wrapped__") or isinstance(function, types.MethodType):
        function = function.__func__ if isinstance(function, types.MethodType) else function.__wrapped__
    code, kwargs = getattr(function, "__code__", None), dict(kwargs or {})
    if code is None:  # a builtin, without a signature
        return {"args": tuple(args), **kwargs}
    named = code.co_argcount + code.co_kwonlyargcount
    positional = code.co_varnames[isinstance(forward, types.MethodType) : code.co_argcount]
    arguments = dict(zip(positional, args))
    if len(args) > len(positional):
        arguments[code.co_varnames[named] if code.co_flags & _takes_more else "args"] = tuple(args[len(positional) :])
    arguments.update((name, kwargs.pop(name)) for name in code.co_varnames[:named] if name in kwargs)
    if kwargs and code.co_flags & _takes_keywords:
        kwargs = {code.co_varnames[named + bool(code.co_flags & _takes_more)]: kwargs}
    return {**arguments, **kwargs}


def specs_of_leaves(model, args, kwargs, dynamic_shapes):
    """One spec a leaf of (args, kwargs), in order: a dict from axes to dimensions, a dimension for an integer, or None."""
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(model, args, kwargs)
    arguments = _arguments_by_name(model, args, kwargs)
    if isinstance(dynamic_shapes, (tuple, list)):
        if len(dynamic_shapes) != len(arguments):
            _fail(f"dynamic_shapes has {len(dynamic_shapes)} entries for {len(arguments)} arguments ({', '.join(arguments)})",
                  "an entry for each argument, None where nothing is dynamic")
        dynamic_shapes = dict(zip(arguments, dynamic_shapes))
    elif not isinstance(dynamic_shapes, dict):
        _fail(f"dynamic_shapes is {dynamic_shapes!r}", 'a dict from arguments to shapes, such as {"x": {0: batch}}, or a tuple of shapes')
    elif "args" not in arguments and set(dynamic_shapes) == {"args"} and len(args) == len(arguments):
        dynamic_shapes = dict(zip(arguments, dynamic_shapes["args"]))
    for name in dynamic_shapes:
        if name not in arguments:
            _fail(f"dynamic_shapes names '{name}', but the arguments are {', '.join(arguments)}", "the names of the arguments")
    keywords, specs = {}, []
    for name, value in arguments.items():
        if name in kwargs:
            keywords[name] = _match(name, value, dynamic_shapes.get(name))
        elif isinstance(value, dict) and value.keys() <= kwargs.keys():  # **kwargs
            shapes = dynamic_shapes.get(name) or {}
            keywords.update({key: _match(key, child, shapes.get(key)) for key, child in value.items()})
        else:
            specs += _match(name, value, dynamic_shapes.get(name))
    return specs + [spec for key in kwargs for spec in keywords[key]]


def _fail(message, fix):
    _atenon.fail(306, message, fix)


def _children(value):
    """(key, child) pairs of a container; None of a leaf."""
    node = _pytree.SUPPORTED_NODES.get(_pytree._get_node_type(value)) or _pytree.node_of_attributes(value)
    if node is None:
        return None
    if node.flatten_with_keys_fn is None:
        return list(enumerate(node.flatten_fn(value)[0]))
    return [(key.step, child) for key, child in node.flatten_with_keys_fn(value)[0]]


def _match(path, value, spec):
    """The specs of the leaves of one value, in order."""
    children = _children(value)
    if children is None:
        return [None if spec is None else _axes(path, value, spec)]
    if spec is None:
        return [found for key, child in children for found in _match(f"{path}.{key}", child, None)]
    if type(spec) is type(value) and not isinstance(spec, (dict, tuple, list)):  # a dataclass of shapes
        spec = dict(_children(spec))
    if isinstance(spec, dict):
        keys = [key for key, _ in children]
        for key in spec:
            if key not in keys:
                _fail(f"dynamic_shapes names '{key}', but {path} has {', '.join(map(repr, keys))}", "the keys that are there")
        parts = [spec.get(key) for key in keys]
    elif isinstance(spec, (tuple, list)):
        if len(spec) != len(children):
            _fail(f"dynamic_shapes has {len(spec)} entries for {path}, which has {len(children)}",
                  "an entry for each, None where nothing is dynamic")
        parts = spec
    else:
        _fail(f"dynamic_shapes gives {spec!r} for {path}, a {type(value).__name__}", "the same containers as in the inputs")
    return [found for (key, child), part in zip(children, parts) for found in _match(f"{path}.{key}", child, part)]


def _axes(path, value, spec):
    if type(value) is int and isinstance(spec, (Dim, _DimHint)):
        return spec
    if not isinstance(value, Tensor):
        _fail(f"dynamic_shapes gives {spec!r} for {path}, a {type(value).__name__}: only tensors have sizes", "None in this place")
    if isinstance(spec, Dim) and value.ndim == 1:
        spec = {0: spec}
    if isinstance(spec, (tuple, list)):
        if len(spec) != value.ndim:
            _fail(f"dynamic_shapes gives {len(spec)} dimensions for {path}, which has {value.ndim}",
                  "a dimension for each axis, None where it is fixed")
        spec = dict(enumerate(spec))
    if not isinstance(spec, dict):
        _fail(f"dynamic_shapes gives {spec!r} for {path}", "a dict from axes to dimensions, such as {0: batch}")
    axes = {}
    for axis, dim in spec.items():
        if type(axis) is not int or not -value.ndim <= axis < value.ndim:
            _fail(f"dynamic_shapes names axis {axis!r} of {path}, which has {value.ndim}", "an axis that is there")
        if not (dim is None or isinstance(dim, (int, str, Dim, _DimHint))):
            _fail(f"dynamic_shapes gives {dim!r} for axis {axis} of {path}", "a torch.export.Dim, Dim.AUTO, or None for a fixed size")
        axes[axis % value.ndim] = dim
    return axes
