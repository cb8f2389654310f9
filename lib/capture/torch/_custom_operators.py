# Operators that users declare by torch.library, and the functions behind each of them.
#
# Natively an operator is a block with a schema and nothing else. A call of it before forward runs the user's kernel; in forward it
# runs the fake function, for the results' types, and is one node. The native module asks here by the operator's name.
import inspect
import re
import typing

import _atenon

from torch import _dtypes
from torch._tensor import Tensor

# Dispatch keys of functions that compute on the CPU, the best first.
_kernel_keys = ("CPU", "cpu", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "default", "")
_composite_key = "CompositeImplicitAutograd"

_functions = {}  # operator -> dispatch key -> function
_defined = set()  # operators that we have instead of a library's extension


def canonical(name):
    name = str(name)
    if "::" not in name:
        raise ValueError(f"the name of an operator is namespace::name, not {name}")
    return name.removesuffix(".default")


def declare(name, schema):
    """`schema` is "(Tensor x) -> Tensor". An operator of ours stays as it is."""
    header = " ".join(f"{canonical(name)}{schema}".split())
    # What gives nothing and updates nothing is called for what it does besides.
    is_effect = re.search(r"->\s*\(\s*\)\s*$", header) and "!" not in header
    _atenon.declare(f"op {header}\n" + ("  tags keep\n" if is_effect else ""))
    _functions.setdefault(canonical(name), {})


def register(name, key, function):
    _functions.setdefault(canonical(name), {})[key] = function


def define(name, schema, function):
    """An operator of a library's compiled extension, by what it calls: what the library registers for it besides is not asked."""
    declare(name, schema)
    register(name, _composite_key, function)
    _defined.add(canonical(name))


def kernel_of(name):
    functions = _functions.get(name, {})
    for key in (*_kernel_keys, _composite_key):
        if key in functions:
            return functions[key]
    raise NotImplementedError(f"{name} has no Python kernel for the CPU: register one by torch.library.impl(\"{name}\", \"cpu\")")


def composite_of(name):
    """The function of an operator that is only a name for what it calls: that is recorded, not the operator."""
    functions = _functions.get(name, {})
    return functions.get(_composite_key) if "fake" not in functions or name in _defined else None


def fake_of(name):
    functions = _functions.get(name, {})
    for key in ("fake", "Meta", "CompositeExplicitAutograd"):
        if key in functions:
            return functions[key]
    schema = _atenon.schema(name)
    names = re.findall(r"(\w+)(?:=[^,()]*)?(?=[,)])", schema[schema.index("(") : schema.rindex("->")].replace("!)", ""))
    _atenon.fail(318, f"{name} has no fake function, so the types of its results are not known",
                 f'@torch.library.register_fake("{name}")\ndef _({", ".join(names)}): return torch.empty_like({names[0] if names else "x"})')


# --- Schemas from annotations

_items = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", complex: "complex",
          _atenon.dtype: "ScalarType", _atenon.device: "Device", typing.Union[int, float, bool]: "Scalar"}
_sequences = (list, tuple, typing.Sequence, typing.List, __import__("collections").abc.Sequence)


def _without_none(annotation):
    """X and True for Optional[X]."""
    arguments = typing.get_args(annotation)
    if type(None) not in arguments:
        return annotation, False
    left = tuple(a for a in arguments if a is not type(None))
    return (left[0] if len(left) == 1 else typing.Union[left]), True


def _type_of(annotation, what):
    inner, is_optional = _without_none(annotation)
    mark = "?" if is_optional else ""
    if inner in _items:
        return _items[inner] + mark
    arguments = [a for a in typing.get_args(inner) if a is not Ellipsis]
    if typing.get_origin(inner) in _sequences and len(set(arguments)) == 1:
        item, has_none = _without_none(arguments[0])
        if item in _items:
            return f"{_items[item]}{'?' if has_none else ''}[]{mark}"
    raise ValueError(f"infer_schema: {what} has unsupported type {annotation}; annotate tensors, numbers, bools, strings, dtypes, "
                     "and lists of them")


def _returns_of(annotation):
    if annotation in (None, type(None)):
        return "()"
    if typing.get_origin(annotation) is tuple:
        return "(" + ", ".join(_type_of(a, "the result") for a in typing.get_args(annotation)) + ")"
    return _type_of(annotation, "the result")


def _spelled(default):
    if isinstance(default, str):
        return f'"{default}"'
    if isinstance(default, _atenon.dtype):
        return str(default).removeprefix("torch.")
    if default is None or isinstance(default, (bool, int, float)):
        return str(default)
    raise ValueError(f"infer_schema: a default of {default!r} is not supported")


def infer_schema(function, mutates_args=(), name=None):
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError:
        signature = inspect.signature(function)
    unknown = mutates_args == "unknown"
    left = set() if unknown else set(mutates_args)
    parts, has_star = [], False
    for i, (parameter, p) in enumerate(signature.parameters.items()):
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ValueError(f"infer_schema: {parameter} takes any number of arguments, which no schema can say")
        if p.annotation is p.empty:
            raise ValueError(f"infer_schema: parameter {parameter} needs an annotation")
        if p.kind is p.KEYWORD_ONLY and not has_star:
            parts.append("*")
            has_star = True
        kind = _type_of(p.annotation, f"parameter {parameter}")
        if parameter in left or (unknown and kind.startswith("Tensor")):
            left.discard(parameter)
            if not kind.startswith("Tensor"):
                raise ValueError(f"infer_schema: {parameter} is in mutates_args, but is no tensor")
            kind = kind.replace("Tensor", f"Tensor(a{i}!)", 1)
        parts.append(f"{kind} {parameter}" + ("" if p.default is p.empty else f"={_spelled(p.default)}"))
    if left:
        raise ValueError(f"infer_schema: mutates_args has {', '.join(sorted(left))}, which are no parameters")
    if signature.return_annotation is signature.empty:
        raise ValueError("infer_schema: the function needs a return annotation, such as -> torch.Tensor")
    return f"{name or ''}({', '.join(parts)}) -> {_returns_of(signature.return_annotation)}"
