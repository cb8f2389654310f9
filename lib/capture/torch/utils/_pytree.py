# Nested containers of values: flattening, unflattening, mapping, and the registry of container types.
#
# The order of leaves is PyTorch's: dict in insertion order, namedtuple in field order, dataclass by its registration. Libraries
# register their own containers (model outputs, caches) here while they are imported.
import copy
import functools
from collections import OrderedDict, defaultdict, deque, namedtuple

from torch._placeholder import Unsupported
from torch._size import Size

BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})

Context = object
PyTree = object


class KeyEntry:
    """One step of a path to a leaf; a subclass says what it steps by."""

    __slots__ = ("step",)

    def __init__(self, step):
        self.step = step

    def __eq__(self, other):
        return type(self) is type(other) and self.step == other.step

    def __hash__(self):
        return hash((type(self), self.step))

    def __repr__(self):
        return f"{type(self).__name__}({self.step!r})"

    def __str__(self):
        return f"[{self.step!r}]"

    def get(self, container):
        return container[self.step]


class SequenceKey(KeyEntry):
    __slots__ = ()
    idx = property(lambda self: self.step)


class MappingKey(KeyEntry):
    __slots__ = ()
    key = property(lambda self: self.step)


class GetAttrKey(KeyEntry):
    __slots__ = ()
    name = property(lambda self: self.step)

    def __str__(self):
        return f".{self.step}"

    def get(self, obj):
        return getattr(obj, self.step)


NodeDef = namedtuple("NodeDef", ["type", "flatten_fn", "unflatten_fn", "flatten_with_keys_fn"])
_SerializeNodeDef = namedtuple("_SerializeNodeDef", ["typ", "serialized_type_name", "to_dumpable_context",
                                                     "from_dumpable_context"])
SUPPORTED_NODES = {}
SUPPORTED_SERIALIZED_TYPES = {}


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
                                  to_dumpable_context=to_dumpable_context, from_dumpable_context=from_dumpable_context,
                                  flatten_with_keys_fn=flatten_with_keys_fn)


def _private_register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                                  from_dumpable_context=None, flatten_with_keys_fn=None):
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, serialized_type_name or f"{cls.__module__}.{cls.__qualname__}",
                                                        to_dumpable_context, from_dumpable_context)


_register_pytree_node = _private_register_pytree_node


# --- Objects of other classes, as arguments and results of forward: a cache of keys and values is one


class _Cycle(Exception):
    pass


def node_of_attributes(obj):
    """Takes an object of a class that nobody registered apart by those of its attributes that hold tensors; the others
    stay as they are. None if no attribute does, or where one leads back to the object."""
    from torch._sparse import SparseTensor

    if type(obj) is SparseTensor:
        raise Unsupported("a sparse tensor is supported neither as an input of forward nor as its result", "torch.sparse")
    try:
        return _attributes if _names_with_tensors(obj, ()) else None
    except _Cycle:
        return None


def _names_with_tensors(obj, outer):
    from torch.nn.modules.module import Module

    attributes = getattr(obj, "__dict__", None)
    if type(attributes) is not dict or isinstance(obj, (type, Module)) or callable(obj):
        return []
    return [name for name, value in attributes.items() if _holds_tensor(value, (*outer, obj))]


def _holds_tensor(value, outer):
    from torch._tensor import Tensor

    if isinstance(value, Tensor):
        return True
    if any(value is seen for seen in outer):
        raise _Cycle
    if tree_is_leaf(value):
        return bool(_names_with_tensors(value, outer))
    children = SUPPORTED_NODES[_get_node_type(value)].flatten_fn(value)[0]
    return any([_holds_tensor(child, (*outer, value)) for child in children])


def _attributes_flatten(obj):
    names = _names_with_tensors(obj, ())
    return [vars(obj)[name] for name in names], (obj, names)


def _attributes_unflatten(values, context):
    obj, names = context
    made = copy.copy(obj)
    vars(made).update(zip(names, values))
    return made


def _attributes_flatten_with_keys(obj):
    values, context = _attributes_flatten(obj)
    return [(GetAttrKey(name), value) for name, value in zip(context[1], values)], context


_attributes = NodeDef(object, _attributes_flatten, _attributes_unflatten, _attributes_flatten_with_keys)


def _deregister_pytree_node(cls):
    SUPPORTED_NODES.pop(cls, None)
    SUPPORTED_SERIALIZED_TYPES.pop(cls, None)


def register_constant(cls):
    """Objects of the class are part of the structure: they have no leaves, and are compared."""
    register_pytree_node(cls, lambda constant: ([], constant), lambda _, constant: constant,
                         flatten_with_keys_fn=lambda constant: ([], constant))


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    names = [f.name for f in cls.__dataclass_fields__.values() if f.init] if field_names is None else list(field_names)
    names = [name for name in names if name not in (drop_field_names or ())]

    def present(obj):
        return [name for name in names if getattr(obj, name) is not None]

    def flatten(obj):
        found = present(obj)
        return [getattr(obj, name) for name in found], [found, [name for name in names if name not in found]]

    def unflatten(values, context):
        found, absent = context
        return cls(**dict(zip(found, values)), **dict.fromkeys(absent))

    def flatten_with_keys(obj):
        values, context = flatten(obj)
        return [(GetAttrKey(name), value) for name, value in zip(context[0], values)], context

    _private_register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name,
                                  flatten_with_keys_fn=flatten_with_keys)


# --- The containers that are known from the start


def _tuple_flatten(d):
    return list(d), None


def _tuple_unflatten(values, context):
    return tuple(values)


def _list_flatten(d):
    return d, None


def _list_unflatten(values, context):
    return list(values)


def _sequence_flatten_with_keys(d):
    return [(SequenceKey(i), value) for i, value in enumerate(d)], None


_tuple_flatten_with_keys = _list_flatten_with_keys = _sequence_flatten_with_keys


def _dict_flatten(d):
    return list(d.values()), list(d.keys())


def _dict_unflatten(values, context):
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d):
    return [(MappingKey(key), value) for key, value in d.items()], list(d.keys())


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values, strict=True))


_ordereddict_flatten, _ordereddict_flatten_with_keys = _dict_flatten, _dict_flatten_with_keys


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d.keys())]


def _defaultdict_unflatten(values, context):
    return defaultdict(context[0], zip(context[1], values))


def _defaultdict_flatten_with_keys(d):
    return _dict_flatten_with_keys(d)[0], _defaultdict_flatten(d)[1]


def _deque_flatten(d):
    return list(d), d.maxlen


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


def _deque_flatten_with_keys(d):
    return _sequence_flatten_with_keys(d)[0], d.maxlen


def _namedtuple_flatten(d):
    return list(d), type(d)


def _namedtuple_unflatten(values, context):
    return context(*values)


def _namedtuple_flatten_with_keys(d):
    return [(GetAttrKey(name), value) for name, value in zip(d._fields, d)], type(d)


for _type, _node in {
    tuple: (_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys),
    Size: (_tuple_flatten, lambda values, context: Size(values), _tuple_flatten_with_keys),
    list: (_list_flatten, _list_unflatten, _list_flatten_with_keys),
    dict: (_dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    namedtuple: (_namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys),
    OrderedDict: (_ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys),
    defaultdict: (_defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys),
    deque: (_deque_flatten, _deque_unflatten, _deque_flatten_with_keys),
}.items():
    SUPPORTED_NODES[_type] = NodeDef(_type, *_node)


def is_namedtuple_instance(obj):
    return isinstance(obj, tuple) and hasattr(obj, "_fields") and type(obj) is not tuple


def is_namedtuple_class(cls):
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def _get_node_type(tree):
    kind = type(tree)
    return namedtuple if kind not in SUPPORTED_NODES and is_namedtuple_instance(tree) else kind


def tree_is_leaf(tree, is_leaf=None):
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


# --- Structure


class TreeSpec:
    """The structure of a tree: a node's type, its context (keys, field names), and its children."""

    def __init__(self, type, context=None, children_specs=()):
        self.type = type
        self.context = context
        self.children_specs = list(children_specs)
        self.num_children = len(self.children_specs)
        self.num_leaves = 1 if type is None else sum(child.num_leaves for child in self.children_specs)
        self.num_nodes = 1 + sum(child.num_nodes for child in self.children_specs)

    _children = property(lambda self: self.children_specs)

    def is_leaf(self):
        return self.type is None

    def children(self):
        return self.children_specs

    def child(self, index):
        return self.children_specs[index]

    def unflatten(self, leaves):
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree):
        leaves = []
        self._collect_up_to(tree, leaves)
        return leaves

    def _collect_up_to(self, tree, leaves):
        if self.type is None:
            leaves.append(tree)
            return
        children, context = SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)
        children = list(children)
        if _get_node_type(tree) is not self.type or len(children) != self.num_children:
            raise ValueError(f"Node type mismatch; expected {self.type}, but got {type(tree)}.")
        if isinstance(tree, dict) and self.type is not defaultdict and context != self.context:
            children = [tree[key] for key in self.context]
        for spec, child in zip(self.children_specs, children):
            spec._collect_up_to(child, leaves)

    def __eq__(self, other):
        return (isinstance(other, TreeSpec) and self.type is other.type and self.context == other.context
                and self.children_specs == other.children_specs)

    def __hash__(self):
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __repr__(self):
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, [{', '.join(map(repr, self.children_specs))}])"


class LeafSpec(TreeSpec):
    def __init__(self):
        super().__init__(None)


_LEAF_SPEC = LeafSpec()


def treespec_leaf():
    return _LEAF_SPEC


def treespec_tuple(iterable=()):
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping=()):
    mapping = dict(mapping)
    return TreeSpec(dict, list(mapping), list(mapping.values()))


def _flatten_into(tree, leaves, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten_into(child, leaves, is_leaf) for child in children])


def tree_flatten(tree, is_leaf=None):
    leaves = []
    spec = _flatten_into(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a "
                         f"pytree that holds {treespec.num_leaves} items ({treespec}).")
    return _unflatten(iter(leaves), treespec)


def _unflatten(leaves, spec):
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_unflatten(leaves, child) for child in spec.children_specs], spec.context)


def tree_iter(tree, is_leaf=None):
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf=None):
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func, tree, *rests, is_leaf=None):
    leaves, spec = tree_flatten(tree, is_leaf)
    for arguments in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests]):
        func(*arguments)
    return tree


def map_only(condition, /, func=None):
    matches = condition if callable(condition) and not isinstance(condition, type) else (lambda x: isinstance(x, condition))

    def wrapper(function):
        @functools.wraps(function)
        def applied(x):
            return function(x) if matches(x) else x
        return applied
    return wrapper if func is None else wrapper(func)


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_iter(tree, is_leaf)))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.type is None or _get_node_type(tree) is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    children = list(children)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    flat = []
    for child, spec in zip(children, treespec.children_specs):
        leaves = _broadcast_to_and_flatten(child, spec, is_leaf)
        if leaves is None:
            return None
        flat += leaves
    return flat


# --- Paths


def tree_flatten_with_path(tree, is_leaf=None):
    _, spec = tree_flatten(tree, is_leaf)
    return list(_with_path((), tree, is_leaf)), spec


def tree_leaves_with_path(tree, is_leaf=None):
    return list(_with_path((), tree, is_leaf))


def _with_path(path, tree, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a flatten_with_keys_fn "
                         "argument to register_pytree_node.")
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _with_path((*path, key), child, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    leaves, spec = tree_flatten_with_path(tree, is_leaf)
    paths, values = [path for path, _ in leaves], [value for _, value in leaves]
    return spec.unflatten(map(func, paths, values, *[spec.flatten_up_to(rest) for rest in rests]))


def keystr(path):
    return "".join(map(str, path))


def key_get(obj, path):
    for key in path:
        obj = key.get(obj)
    return obj


def arg_tree_leaves(*args, **kwargs):
    return tree_leaves((args, kwargs))


def treespec_dumps(treespec, protocol=None):
    import json

    def plain(spec):
        if spec.type is None:
            return {"type": None, "context": None, "children_spec": []}
        known = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
        name = known.serialized_type_name if known else f"{spec.type.__module__}.{spec.type.__qualname__}"
        context = known.to_dumpable_context(spec.context) if known and known.to_dumpable_context else json.dumps(spec.context)
        return {"type": name, "context": context, "children_spec": [plain(child) for child in spec.children_specs]}

    return json.dumps([1, plain(treespec)])


def treespec_pprint(treespec):
    return repr(treespec)
