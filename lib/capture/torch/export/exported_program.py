# ExportedProgram: torch.export's view of a program of Atenon's, which the native module holds.
#
# Nothing is kept twice: signature, graph and state are read from the program when they are asked for, and module() runs the
# program itself. What only Python knows is beside it: the pytrees of inputs and outputs, with the user's own classes.
import dataclasses
import sys
import textwrap

import _atenon

from torch._tensor import Tensor
from torch.export._verifier import TrainingIRVerifier, Verifier
from torch.export.decomp_utils import CustomDecompTable
from torch.export.graph_signature import (
    ConstantArgument, CustomObjArgument, ExportBackwardSignature, ExportGraphSignature, InputKind, InputSpec, OutputKind,
    OutputSpec, SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument, TokenArgument)
from torch.fx.graph import Graph, Subgraph, Value
from torch.fx.graph_module import GraphModule
from torch.fx.node import Node
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter
from torch.utils import _pytree

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]

_atenon.register(Value=Value, Subgraph=Subgraph)

_deepest = 32  # decompositions into what is decomposed again


@dataclasses.dataclass
class ModuleCallSignature:
    inputs: list
    outputs: list
    in_spec: _pytree.TreeSpec
    out_spec: _pytree.TreeSpec
    forward_arg_names: list | None = None


@dataclasses.dataclass
class ModuleCallEntry:
    fqn: str
    signature: ModuleCallSignature | None = None


@dataclasses.dataclass
class CallSpec:
    in_spec: _pytree.TreeSpec | None
    out_spec: _pytree.TreeSpec | None


@dataclasses.dataclass(frozen=True)
class ValueRanges:
    """From lower to upper; upper is math.inf where nothing bounds it."""

    lower: int
    upper: float

    def __contains__(self, value):
        return self.lower <= value <= self.upper

    def __repr__(self):
        return f"VR[{'-int_oo' if self.lower == float('-inf') else self.lower}, {'int_oo' if self.upper == float('inf') else self.upper}]"


# --- Trees of a program as pytrees


def _class_named(qualified):
    module, _, name = qualified.rpartition(".")
    found = sys.modules.get(module)
    if found is None or not hasattr(found, name):
        _atenon.fail(331, f"the program needs the class {qualified}, which is not here", f"import {module} first")
    return getattr(found, name)


def _pytree_of(tree):
    kind, class_name, keys, children = tree
    specs = [_pytree_of(child) for child in children]
    if kind in ("leaf", "none"):
        return _pytree.treespec_leaf()
    if kind == "dict":
        return _pytree.TreeSpec(dict, list(keys), specs)
    if kind == "named_tuple":
        return _pytree.TreeSpec(_pytree.namedtuple, _class_named(class_name), specs)
    if kind == "custom":
        return _pytree.TreeSpec(_class_named(class_name), [list(keys), []], specs)
    return _pytree.TreeSpec(tuple if kind == "tuple" else list, None, specs)


def _call_trees(program):
    """in_spec and out_spec of a program that was read from a file: all inputs are positional."""
    (kind, _, keys, children), output = program.trees()
    positional = _pytree.TreeSpec(tuple, None, [_pytree_of(child) for child in children])
    return _pytree.TreeSpec(tuple, None, [positional, _pytree.treespec_dict()]), _pytree_of(output), list(keys)


# --- The program


class ExportedProgram:
    def __init__(self, program, in_spec, out_spec, argument_names, module_names=(), example_inputs=None, dynamic_shapes=None,
                 call_signatures=None, aliases=None):
        self._program = program
        self._in_spec = in_spec
        self._out_spec = out_spec
        self._argument_names = argument_names
        self._module_names = list(module_names)
        self._example_inputs = example_inputs
        self._dynamic_shapes = dynamic_shapes
        self._call_signatures = call_signatures or {}  # of the modules that were to keep theirs
        self._aliases = aliases or {}  # further names of modules and state -> the first
        self._is_decomposed = False
        self._graph_module = None
        self._state = None

    @classmethod
    def _of_program(cls, program):
        in_spec, out_spec, names = _call_trees(program)
        return cls(program, in_spec, out_spec, names)

    def _with(self, program):
        made = ExportedProgram(program, self._in_spec, self._out_spec, self._argument_names, self._module_names, self._example_inputs,
                               self._dynamic_shapes, self._call_signatures, self._aliases)
        made._is_decomposed = self._is_decomposed
        return made

    def __setattr__(self, name, value):
        if not name.startswith("_") and name != "example_inputs":
            raise RuntimeError(f"Unable to set ExportedProgram's {name} attribute.")
        super().__setattr__(name, value)

    # What goes in and out

    @property
    def graph_module(self):
        if self._graph_module is None:
            self._graph_module = GraphModule({}, Graph(self._program, "", self._placeholders()))
            for node in self._graph_module.graph.find_nodes(op="get_attr"):
                setattr(self._graph_module, node.target, GraphModule({}, Graph(self._program, node.target)))
        return self._graph_module

    @property
    def graph(self):
        return self.graph_module.graph

    def _placeholders(self):
        return [(value, value or target.replace(".", "_"), constant)
                for _, value, target, _, _, constant in self._program.inputs()]

    @property
    def graph_signature(self):
        inputs = []
        numbers = {name for name, *_, source in self._program.symbols() if source and "[" not in source}
        for kind, value, target, persistent, is_constant, constant in self._program.inputs():
            kind = InputKind[{"custom_object": "CUSTOM_OBJ"}.get(kind, kind.upper())]
            argument = (ConstantArgument(target.replace(".", "_"), constant) if is_constant
                        else SymIntArgument(value) if value in numbers else TensorArgument(value))
            inputs.append(InputSpec(kind, argument, None if kind is InputKind.USER_INPUT else target,
                                    persistent if kind is InputKind.BUFFER else None))
        outputs = []
        for (kind, target), value in zip(self._program.outputs(), self.graph.output_node().args[0]):
            kind = OutputKind[kind.upper()]
            target = {OutputKind.USER_OUTPUT: None, OutputKind.USER_INPUT_MUTATION: target.replace(".", "_")}.get(kind, target)
            outputs.append(OutputSpec(kind, _argument(value), target))
        return ExportGraphSignature(inputs, outputs)

    @property
    def range_constraints(self):
        return {name: ValueRanges(float("-inf") if lower == -(2**63) else lower, float("inf") if upper is None else upper)
                for name, lower, upper, _, _ in self._program.symbols()}

    @property
    def assumptions(self):
        """What the program assumes of its inputs besides the ranges: (truth, reason, line)."""
        return self._program.assumptions()

    @property
    def call_spec(self):
        return CallSpec(self._in_spec, self._out_spec)

    @property
    def module_call_graph(self):
        signature = self.graph_signature
        inputs = [spec.arg for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]
        outputs = [spec.arg for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
        top = ModuleCallSignature(inputs, outputs, self._in_spec, self._out_spec, list(self._argument_names))
        names = dict.fromkeys([*self._module_names, *self._call_signatures])  # further calls have names of their own: n@1
        return [ModuleCallEntry("", top), *(ModuleCallEntry(name, self._call_signatures.get(name)) for name in names)]

    @property
    def example_inputs(self):
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value):
        if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], tuple) or not isinstance(value[1], dict):
            raise ValueError("Example inputs should be a tuple of positional arguments (a tuple) and keyword arguments (a dict)")
        ordered = (value[0], {name: value[1][name] for name in self._example_inputs[1] if name in value[1]})
        if len(ordered[1]) != len(value[1]) or _pytree.tree_structure(ordered) != self._in_spec:
            raise ValueError(f"Example inputs have another structure than the program's: {_pytree.tree_structure(value)}, not {self._in_spec}")
        self._example_inputs = ordered

    def __deepcopy__(self, memo):  # a program never changes
        return self._with(self._program)

    @property
    def verifier(self):
        return Verifier if self._is_decomposed else TrainingIRVerifier

    verifiers = property(lambda self: [self.verifier])
    dialect = property(lambda self: self.verifier.dialect)

    # State

    def _tensors(self):
        """Every tensor of the program by name, with its kind; parameters are Parameters."""
        if self._state is None:
            kinds = {target: (kind, persistent) for kind, _, target, persistent, _, _ in self._program.inputs() if kind != "user_input"}
            self._state = {name: (*kinds.get(name, ("constant_tensor", True)), tensor)
                           for name, tensor in self._program.weights().items()}
            for name, (kind, persistent, tensor) in self._state.items():
                if kind == "parameter":
                    self._state[name] = (kind, persistent, Parameter(tensor, tensor.is_floating_point()))
            self._state.update((alias, self._state[name]) for alias, name in self._aliases.items() if name in self._state)
        return self._state

    @property
    def state_dict(self):
        return {name: tensor for name, (kind, persistent, tensor) in self._tensors().items()
                if kind == "parameter" or (kind == "buffer" and persistent)}

    @property
    def constants(self):
        return {name: tensor for name, (kind, persistent, tensor) in self._tensors().items()
                if kind == "constant_tensor" or (kind == "buffer" and not persistent)}

    tensor_constants = constants

    def named_parameters(self):
        return ((name, tensor) for name, (kind, _, tensor) in self._tensors().items() if kind == "parameter")

    def parameters(self):
        return (tensor for _, tensor in self.named_parameters())

    def named_buffers(self):
        return ((name, tensor) for name, (kind, _, tensor) in self._tensors().items() if kind == "buffer")

    def buffers(self):
        return (tensor for _, tensor in self.named_buffers())

    # What can be done with it

    def module(self, check_guards=True):
        return ExportedModule(self)

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """By default to core ATen. The operators that were taken out of a table (default_decompositions()) are kept; an
        empty table asks for a functional graph, which ours are from the start."""
        made = self._decomposed(decomp_table)
        made._is_decomposed = True
        return made

    def _decomposed(self, decomp_table):
        if decomp_table is None:
            return self._with(self._program.decomposed("core", []))
        is_core = isinstance(decomp_table, CustomDecompTable)
        functions = decomp_table.functions if is_core else {op.name(): function for op, function in decomp_table.items()}
        exported = self._with(self._program)
        for _ in range(_deepest):
            if is_core:
                exported = exported._with(exported._program.decomposed("core", [*decomp_table.kept, *functions]))
            if not any(target in functions for target in exported._program.targets()):
                return exported
            exported = exported._recaptured(functions)
        _atenon.fail(331, "the decompositions given to run_decompositions go around in a circle: " + ", ".join(functions),
                     "a decomposition that does not use its own operator")

    def _recaptured(self, functions):
        """The program captured again, with Python functions in the place of some operators."""
        if self._example_inputs is None:
            _atenon.fail(331, "decompositions in Python need the example inputs, which a loaded program does not have",
                         "run_decompositions() before torch.export.save")
        _atenon.set_decompositions(functions)
        try:
            args, kwargs = self._example_inputs
            program = _atenon.export(self.module(), args, kwargs, self._dynamic_shapes, False)[0]
        finally:
            _atenon.set_decompositions({})
        return self._with(program)

    def validate(self):
        self._program.validate()

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Unable to call ExportedProgram directly. You should use `exported_program.module()` instead.")

    def __str__(self):
        code = textwrap.indent(self.graph_module.print_readable(print_output=False), "    ")
        return (f"ExportedProgram:\n{code}\nGraph signature: {textwrap.indent(str(self.graph_signature), '    ').lstrip(' ')}\n"
                f"Range constraints: {self.range_constraints}\n")


def _argument(value):
    if not isinstance(value, Node):
        symbolic = {_atenon.SymInt: SymIntArgument, _atenon.SymFloat: SymFloatArgument, _atenon.SymBool: SymBoolArgument}
        make = symbolic.get(type(value))
        return make(str(value)) if make else ConstantArgument("", value)
    kind = value.meta["val"]
    scalars = {"int": SymIntArgument, "float": SymFloatArgument, "bool": SymBoolArgument}
    return (scalars[kind] if isinstance(kind, str) else TensorArgument)(value.name)


# --- As a module again


class ExportedModule(Module):
    """The program with its state as parameters and buffers, under the names they had, to be called as the model was."""

    _new_module = Module

    def __init__(self, exported):
        super().__init__()
        self._exported = exported
        self._names = {}  # name of the state -> module, attribute
        self._add_modules(exported._module_names)
        for name, (kind, persistent, tensor) in exported._tensors().items():
            path, _, attribute = name.rpartition(".")
            owner = self._module_at(path)
            if kind == "parameter":
                owner.register_parameter(attribute, tensor)
            elif kind == "buffer":
                owner.register_buffer(attribute, tensor, persistent=persistent)
            else:
                setattr(owner, attribute, tensor)
            if name not in exported._aliases:
                self._names[name] = (owner, attribute)
        self.forward = _forward(self, exported)

    def _add_modules(self, paths):
        for path in paths:
            outer, _, name = path.rpartition(".")
            self._module_at(outer).add_module(name, self._module_at(self._exported._aliases.get(path, path)))

    def _module_at(self, path):
        owner = self
        for step in path.split(".") if path else ():
            if step not in owner._modules:
                owner.add_module(step, self._new_module())
            owner = owner._modules[step]
        return owner

    def _attribute(self, name):
        owner, attribute = self._names[name]
        return getattr(owner, attribute)

    def _state_now(self):
        return {name: self._attribute(name) for name in self._names}

    @property
    def graph(self):
        return self._exported.graph

    @property
    def code(self):
        return self._exported.graph_module.code

    def print_readable(self, *args, **kwargs):
        return self._exported.graph_module.print_readable(*args, **kwargs)

    def train(self, mode=True):
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self):
        raise NotImplementedError("Calling eval() is not supported yet.")

    def _run(self, args, kwargs):
        exported = self._exported
        leaves = exported._in_spec.flatten_up_to((args, kwargs))
        state = self._state_now()
        values = exported._program.call(leaves, state)
        inputs = dict(zip([target for kind, _, target, *_ in exported._program.inputs() if kind == "user_input"], leaves))
        kinds = exported._program.outputs()
        if any(kind != "user_output" for kind, _ in kinds):  # what is returned as it came may be what is written to now
            returned = exported.graph.output_node().args[0]
            values = [value.clone() if isinstance(node, Node) and node.op == "placeholder" and isinstance(value, Tensor) else value
                      for node, value in zip(returned, values)]
        outputs = []
        for (kind, target), value in zip(kinds, values):
            if kind == "user_output":
                outputs.append(value)
            else:
                _atenon.assign((inputs if kind == "user_input_mutation" else state)[target], value)
        return _pytree.tree_unflatten(outputs, exported._out_spec)


def _forward(module, exported):
    """A function with the model's own parameters, so that Python binds a call and a second capture finds the names."""
    positional, keywords = exported._in_spec.children_specs
    names = exported._argument_names[:positional.num_children]
    listed = ", ".join([*names, *(["*", *keywords.context] if keywords.context else [])])
    given = ", ".join(f"{name!r}: {name}" for name in keywords.context)
    scope = {"run": module._run}
    exec(f"def forward({listed}):\n    return run(({''.join(name + ', ' for name in names)}), {{{given}}})", scope)
    return scope["forward"]


def default_decompositions():
    return CustomDecompTable()
