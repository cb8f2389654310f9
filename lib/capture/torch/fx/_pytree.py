# torch.fx._pytree: trees taken apart by a structure known from elsewhere, which says in which order a node's children come. Libraries
# register their containers here, too; a program's inputs go by torch.utils._pytree alone.
from collections import namedtuple

from torch.utils._pytree import tree_flatten

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls):
    del SUPPORTED_NODES[cls]
    del SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree, spec):
    if spec.is_leaf():
        return [pytree]
    if spec.type in SUPPORTED_NODES:
        children = SUPPORTED_NODES[spec.type](pytree, spec)
        return [leaf for child, of_child in zip(children, spec.children()) for leaf in tree_flatten_spec(child, of_child)]
    leaves, own = tree_flatten(pytree)
    if own != spec:
        raise RuntimeError(f"Real spec {own} of object {pytree} is different from expected spec {spec}.")
    return leaves


def _dict_flatten_spec(d, spec):
    return [d[key] for key in spec.context]


def _list_flatten_spec(d, spec):
    return [d[i] for i in range(spec.num_children)]


def _has_as_many(d, spec):
    return len(d) == spec.num_children


_tuple_flatten_spec = _namedtuple_flatten_spec = _list_flatten_spec
_dict_flatten_spec_exact_match = _list_flatten_spec_exact_match = _has_as_many
_tuple_flatten_spec_exact_match = _namedtuple_flatten_spec_exact_match = _has_as_many

for _type in dict, list, tuple, namedtuple:
    register_pytree_flatten_spec(_type, _dict_flatten_spec if _type is dict else _list_flatten_spec, _has_as_many)
