# torch.export: captures a model inside the running script, and gives the program as PyTorch's ExportedProgram.
#
# A model's own file wants Dim and no more, and is not kept waiting for the rest: that is loaded when it is first named.
import copy
import functools
import importlib
import os
import sys
import types

import _atenon

from torch import _placeholder
from torch._tensor import Tensor
from torch.export.dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, dims
from torch.utils import _pytree

_loaded_when_named = {
    name: module
    for module, names in {
        "_draft_export": ("DraftExportReport", "FailureReport"),
        "decomp_utils": ("CustomDecompTable",),
        "exported_program": ("ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"),
        "graph_signature": ("ExportBackwardSignature", "ExportGraphSignature"),
        "unflatten": ("FlatArgsAdapter", "UnflattenedModule", "unflatten"),
    }.items()
    for name in names
}

__all__ = ["AdditionalInputs", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram",
           "FlatArgsAdapter", "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection", "UnflattenedModule",
           "default_decompositions", "dims", "draft_export", "export", "load", "register_dataclass", "save", "unflatten"]


def export(mod, args=(), kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(),
           prefer_deferred_runtime_asserts_over_guards=False):
    """Captures one call of a module, function or method. `strict` makes no difference: there is one way to capture, and it
    is sound."""
    with _Signatures(mod, preserve_module_call_signature) as signatures:
        ep = _capture(mod, args, kwargs, dynamic_shapes, False)[0]
    ep._call_signatures = signatures.found
    return ep


def draft_export(mod, args=(), kwargs=None, *, dynamic_shapes=None, preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False):
    """Goes on where export would refuse, with what the example inputs give there; _report lists all that was refused. The
    program computes what the model does on the example; where something was refused, on nothing else."""
    from torch.export._draft_export import DraftExportReport, FailureReport

    ep, findings = _capture(mod, args, kwargs, dynamic_shapes, True)
    ep._report = DraftExportReport([FailureReport(*finding) for finding in findings])
    return ep


def _capture(mod, args, kwargs, dynamic_shapes, is_draft):
    if not callable(mod):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module` or a function, got {type(mod)}.")
    if isinstance(args, Tensor):  # as torch.export's documentation has it
        args = (args,)
    for what, given, expected in (("`args` to be a tuple of example positional inputs", args, tuple),
                                  ("`kwargs` to be a dict of example keyword inputs", kwargs or {}, dict)):
        if not isinstance(given, expected):
            _atenon.fail(331, f"Expecting {what}, got {type(given)}", "torch.export.export(model, (x, y), {\"scale\": 2.0})")
    kwargs = dict(kwargs or {})
    for leaf in _pytree.tree_leaves((args, kwargs)):
        if hasattr(leaf, "named_parameters") and type(leaf) not in _pytree.SUPPORTED_NODES:
            _pytree.register_pytree_node(type(leaf), _parameters_of, _with_parameters, flatten_with_keys_fn=_parameters_by_name)
    from torch.export.exported_program import ExportedProgram

    program, result, findings = _atenon.export(mod, args, kwargs, dynamic_shapes, is_draft)
    in_spec, out_spec = _pytree.tree_structure((args, kwargs)), _pytree.tree_structure(result)
    modules, aliases = _names(mod, program.weights()) if hasattr(mod, "named_modules") else ([], {})
    names = program.trees()[0][2]
    return ExportedProgram(program, in_spec, out_spec, names, modules, (args, kwargs), dynamic_shapes, aliases=aliases), findings


def _names(model, weights):
    """All names of the modules; and of modules and state that have several, the one that the program has."""
    names, first, aliases = [], {}, {}
    for name, module in model.named_modules(remove_duplicate=False):
        if name:
            names.append(name)
            if first.setdefault(id(module), name) != name:
                aliases[name] = first[id(module)]
    state = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    for path, module in model.named_modules():
        state += [(f"{path}.{name}" if path else name, value) for name, value in vars(module).items() if isinstance(value, Tensor)]
    held = {id(tensor): name for name, tensor in reversed(state) if name in weights}
    for name, tensor in state:
        if held.get(id(tensor), name) != name:
            aliases[name] = held[id(tensor)]
    return names, aliases


# A module among the inputs is the tree of its parameters.


def _parameters_of(module):
    named = dict(module.named_parameters())
    return list(named.values()), (tuple(named), module)


def _parameters_by_name(module):
    values, context = _parameters_of(module)
    return [(_pytree.MappingKey(name), value) for name, value in zip(context[0], values)], context


def _with_parameters(values, context):
    """A module like the given one with other parameters, of which it has no others."""
    names, module = context
    return _copy(module, dict(zip(names, values)), "")


def _copy(module, parameters, prefix):
    made = copy.copy(module)
    made.__dict__["_parameters"] = {name: parameters.get(prefix + name, value) for name, value in module._parameters.items()}
    made.__dict__["_modules"] = {name: child if child is None else _copy(child, parameters, f"{prefix}{name}.")
                                 for name, child in module._modules.items()}
    return made


class _Signatures:
    """Notes what goes into and comes out of some submodules while a model is captured, as names of the graph."""

    def __init__(self, model, paths):
        self.found = {}  # by the call: n, n@1, ...
        self._handles = []
        for path in paths:
            module = model.get_submodule(path)
            self._handles.append(module.register_forward_pre_hook(self._enter, prepend=False, with_kwargs=True))
            self._handles.append(module.register_forward_hook(functools.partial(self._leave, path), with_kwargs=True))
        self._entered = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for handle in self._handles:
            handle.remove()

    def _enter(self, module, args, kwargs):
        self._entered.append(_described(args, kwargs))

    def _leave(self, path, module, args, kwargs, result):
        inputs, in_spec = self._entered.pop()
        if not _atenon.is_tracing():
            return
        calls = sum(call.partition("@")[0] == path for call in self.found)
        from torch.export.exported_program import ModuleCallSignature

        outputs, out_spec = _pytree.tree_flatten(result)
        self.found[f"{path}@{calls}" if calls else path] = ModuleCallSignature(inputs, [_argument_of(x) for x in outputs], in_spec, out_spec)


def _described(args, kwargs):
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    return [_argument_of(leaf) for leaf in leaves], spec


def _argument_of(leaf):
    """A tensor by the name of its value in the graph."""
    from torch.export.graph_signature import ConstantArgument, SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument

    if isinstance(leaf, Tensor):
        return TensorArgument(_atenon.value_name(leaf))
    for kind, argument in ((_atenon.SymInt, SymIntArgument), (_atenon.SymFloat, SymFloatArgument), (_atenon.SymBool, SymBoolArgument)):
        if isinstance(leaf, kind):
            return argument(str(leaf))
    return ConstantArgument("", leaf)


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes a program of Atenon's to a path or an open binary file."""
    from torch.export.exported_program import ExportedProgram

    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    files = {}
    for name, content in (extra_files or {}).items():
        if not isinstance(name, str) or not name or not isinstance(content, (str, bytes)):
            raise TypeError(f"extra_files are texts or bytes by their names, not {type(content).__name__} by {name!r}")
        files[name] = content.encode() if isinstance(content, str) else content
    program = ep._program.with_extra_files(files)
    if isinstance(f, (str, os.PathLike)):
        program.save(os.fspath(f))
    else:
        f.write(program.bytes())


def load(f, *, extra_files=None, expected_opset_version=None):
    """Reads a program of Atenon's or PyTorch's. `extra_files` is filled with all the files that were saved with it: as texts, and
    as bytes where they are no UTF-8."""
    from torch.export.exported_program import ExportedProgram

    program = _atenon.load(os.fspath(f) if isinstance(f, (str, os.PathLike)) else f.read())
    if extra_files is not None:
        extra_files.update((name, _text_if_it_is(content)) for name, content in program.extra_files().items())
    return ExportedProgram._of_program(program)


def _text_if_it_is(content):
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def register_dataclass(cls, *, serialized_type_name=None):
    """Lets instances of a dataclass be inputs and outputs."""
    _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)


def __getattr__(name):
    if name not in _loaded_when_named:
        return _placeholder.attribute(__name__, name)
    value = getattr(importlib.import_module(f"{__name__}.{_loaded_when_named[name]}"), name)
    globals()[name] = value
    return value


class _CallableModule(types.ModuleType):
    """`torch.export(model, args)`: how talks and older texts call it."""

    def __call__(self, *args, **kwargs):
        return export(*args, **kwargs)

    def __setattr__(self, name, value):  # torch.export.unflatten is the function, whoever imports the module of its name
        super().__setattr__(name, value.unflatten if name == "unflatten" and isinstance(value, types.ModuleType) else value)


sys.modules[__name__].__class__ = _CallableModule
