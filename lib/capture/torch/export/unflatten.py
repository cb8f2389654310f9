# An exported program as modules again, each with the part of the graph that ran in it.
#
# A node knows the call of the module that it ran in ("layers.1.relu@1"), so what belongs to one call lies together. Its
# inputs are the values that it reads from outside, its outputs those that are read after it. Calls of one module with equal
# graphs are one module; a call that differs is a module beside it ("relu@1"). A module that ran in pieces (a list of layers
# with other work between them) has no graph of its own: its pieces are its parent's.
import inspect
import operator

import _atenon

from torch._ops import ops
from torch.export.exported_program import ExportedModule
from torch.fx.graph import Graph, Subgraph, spell
from torch.fx.node import FakeTensor, Node
from torch.nn.modules.module import Module
from torch.utils import _pytree

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter:
    """Adapts arguments of another structure; a subclass says how."""

    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        raise NotImplementedError


# --- Which nodes belong to which call


class _Call:
    def __init__(self, path, parent):
        self.path = path
        self.parent = parent
        self.items = []  # nodes and calls, in order
        self.nodes = set()  # here and inside
        self.fqn = ".".join(part.partition("@")[0] for part in path.split("."))

    def owns(self, name):
        return not self.fqn or name.startswith(self.fqn + ".")


def _path_of(node):
    return next(iter(node.meta.get("nn_module_stack", {})), None)


def _chain(path, without):
    """The calls around a node, outermost first: a, a.b, a.b.c."""
    parts = path.split(".") if path else []
    return [call for end in range(1, len(parts) + 1) if (call := ".".join(parts[:end])) not in without]


def _partition(nodes):
    without = set()  # run in pieces
    while True:
        root, reopened = _Call("", None), set()
        opened, seen = [root], set()
        for node in nodes:
            chain = _chain(_path_of(node) or "", without) if _path_of(node) is not None else [call.path for call in opened[1:]]
            while opened[1:] and [call.path for call in opened[1:]] != chain[:len(opened) - 1]:
                opened.pop()
            for path in chain[len(opened) - 1:]:
                if path in seen:
                    reopened.add(path)
                seen.add(path)
                call = _Call(path, opened[-1])
                opened[-1].items.append(call)
                opened.append(call)
            opened[-1].items.append(node)
            for call in opened:
                call.nodes.add(node)
        if not reopened:
            return root
        without |= reopened


# --- Graphs of calls

_update = ops.aten.copy_.default  # what a call leaves in the state of its module, at its end


class _Builder:
    """Makes the graph of each call from the program's."""

    def __init__(self, exported):
        self.exported = exported
        self.flat = Graph(exported._program, "", exported._placeholders())
        self.output = self.flat.output_node()
        self.named = {node.name: node for node in self.flat.nodes}
        placeholders = self.flat.find_nodes(op="placeholder")
        self.inputs = [node for node, (kind, *_) in zip(placeholders, exported._program.inputs()) if kind == "user_input"]
        self.state = {node: target for node, (kind, _, target, *_) in zip(placeholders, exported._program.inputs())
                      if kind != "user_input"}
        self.written = {}  # node -> what its value is written to at the end: the name of a state, or a placeholder
        by_path = {target: node for node, (kind, _, target, *_) in zip(placeholders, exported._program.inputs())
                   if kind == "user_input"}
        for (kind, target), value in zip(exported._program.outputs(), self.output.args[0]):
            if kind != "user_output":
                self.written.setdefault(value, []).append(by_path[target] if kind == "user_input_mutation" else target)
        self.results = [value for (kind, _), value in zip(exported._program.outputs(), self.output.args[0])
                        if kind == "user_output"]
        self.bodies = {}  # module -> [(what its graph computes, its name)]
        body = [node for node in self.flat.nodes if node.op not in ("placeholder", "output", "get_attr")]
        self.root = _partition(body)

    def reads(self, call):
        """Values from outside, in the order of their first use."""
        found = {}
        for node in self.flat.nodes:
            if node not in call.nodes:
                continue
            for operand in node.all_input_nodes:
                is_own = operand in call.nodes or operand.op == "get_attr" or call.owns(self.state.get(operand, " "))
                if not is_own:
                    found[operand] = None
        return list(found)

    def gives(self, call):
        """Values that are read after it."""
        kept = {node for node in self.results if isinstance(node, Node)} | set(self.written)
        return [node for node in self.flat.nodes if node in call.nodes and
                (any(user not in call.nodes and user is not self.output for user in node.users) or
                 (node in kept and not self.is_written_here(call, node)) or node in set(self.results))]

    def is_written_here(self, call, node):
        """Whether everything that the value is written to is state of the call's module."""
        return all(isinstance(target, str) and call.owns(target) for target in self.written.get(node, []))

    def signature_of(self, call):
        """That of the model's module, where nothing else goes in and out: no tensor of a closure, no argument updated in place."""
        signature = self.exported._call_signatures.get(call.path) if call.parent else None
        if signature is None:
            return None
        known = [{self.named.get(getattr(spec, "name", None)) for spec in specs} for specs in (signature.inputs, signature.outputs)]
        fits = known[0].issuperset(self.reads(call)) and known[1].issuperset(self.gives(call))
        return signature if fits else None

    def build(self, call, owner):
        """The graph of a call, and the modules of the calls in it under `owner`."""
        graph, of = Graph(), {}
        signature = self.signature_of(call)
        reads = self.inputs if call.parent is None else self.reads(call)
        if signature:
            reads = [self.named.get(getattr(spec, "name", None), spec) for spec in signature.inputs]
        for value in reads:
            is_node = isinstance(value, Node)
            place = graph._add(graph._free(value.name if is_node else "constant"), "placeholder", value.name if is_node else "constant")
            place.meta["val"] = value.meta["val"] if is_node else getattr(value, "value", None)
            if is_node:
                of.setdefault(value, place)

        def resolve(argument):
            if isinstance(argument, Node):
                if argument not in of:
                    of[argument] = self.attribute(graph, call, argument)
                return of[argument]
            if isinstance(argument, (list, tuple)):
                return type(argument)(resolve(item) for item in argument)
            return argument

        for item in call.items:
            if isinstance(item, _Call):
                self.add_call(graph, call, item, owner, of, resolve)
                continue
            copy = graph._add(graph._free(item.name), item.op, item.target, resolve(item.args),
                              {key: resolve(value) for key, value in item.kwargs.items()})
            copy.meta.update(item.meta)
            of[item] = copy
        gives = self.results if call.parent is None else self.gives(call)
        if signature:
            gives = [self.named.get(getattr(spec, "name", None), getattr(spec, "value", None)) for spec in signature.outputs]
        self.add_updates(graph, call, of, resolve)
        graph._add("output", "output", "output", (tuple(resolve(value) for value in gives),))
        return graph, signature, [value for value in gives if isinstance(value, Node)]

    def attribute(self, graph, call, node):
        """State of the call's module, or a subgraph."""
        name = self.state.get(node, node.target)
        if node in self.state and call.fqn:
            name = name[len(call.fqn) + 1:]
        found = graph._add(graph._free(node.name), "get_attr", name if node in self.state else Subgraph(name))
        found.meta.update(node.meta)
        return found

    def add_updates(self, graph, call, of, resolve):
        for node in self.flat.nodes:
            for target in self.written.get(node, []) if node in call.nodes or call.parent is None else []:
                if isinstance(target, str):
                    inner = [item for item in call.items if isinstance(item, _Call) and node in item.nodes and item.owns(target)]
                    if inner or not call.owns(target):
                        continue
                    held = next(place for place, name in self.state.items() if name == target)
                else:
                    held = target
                graph._add(graph._free("copy_"), "call_function", _update, (resolve(held), resolve(node)))

    def add_call(self, graph, call, inner, owner, of, resolve):
        relative = inner.path[len(call.path) + 1:] if call.path else inner.path
        fqn = inner.fqn[len(call.fqn) + 1:] if call.fqn else inner.fqn
        module = _module_at(owner, fqn)
        body, signature, gives = self.build(inner, module)
        module, fqn = self.place(module, owner, fqn, relative, body, signature)
        if signature:
            leaves = [resolve(self.named[spec.name]) if getattr(spec, "name", None) in self.named else getattr(spec, "value", None)
                      for spec in signature.inputs]
            args, kwargs = _pytree.tree_unflatten(leaves, signature.in_spec)
        else:
            args, kwargs = tuple(resolve(value) for value in self.reads(inner)), {}
        node = graph._add(graph._free(fqn.replace(".", "_").replace("@", "_")), "call_module", fqn, args, kwargs)
        outputs = body.output_node().args[0]
        node.meta["val"] = tuple(value.meta["val"] if isinstance(value, Node) else value for value in outputs)
        if len(outputs) == 1 and not signature:
            node.meta["val"] = node.meta["val"][0]
            of[gives[0]] = node
            return
        for index, value in enumerate([self.named.get(getattr(s, "name", None)) for s in signature.outputs] if signature else gives):
            if value not in inner.nodes:
                continue
            item = graph._add(graph._free("getitem"), "call_function", operator.getitem, (node, index))
            item.meta.update(value.meta)
            of[value] = item

    def place(self, module, owner, fqn, relative, body, signature):
        """The module that computes `body`: that of an earlier call with an equal graph, or one of its own."""
        shape = _shape(body, self.exported)
        known = self.bodies.setdefault(id(module), [])
        for other, name in known:
            if other == shape:
                return _module_at(owner, name), name
        if not known:
            known.append((shape, fqn))
            module._take(body, signature, self.exported)
            return module, fqn
        name = f"{fqn}@{len(known)}"
        twin = _module_at(owner, name)
        for registry in ("_parameters", "_buffers", "_modules"):
            getattr(twin, registry).update(getattr(module, registry))
        known.append((shape, name))
        twin._take(body, signature, self.exported)
        return twin, name


def _shape(graph, exported):
    """What two graphs have in common that compute the same: everything but the names."""
    number = {node: index for index, node in enumerate(graph.nodes)}

    def spelled(argument):
        if isinstance(argument, Node):
            return f"%{number[argument]}"
        if isinstance(argument, (list, tuple)):
            return "[" + ", ".join(map(spelled, argument)) + "]"
        return repr(argument)

    def target(node):
        if isinstance(node.target, Subgraph):
            return _shape(Graph(exported._program, node.target), exported)
        return "" if node.op == "placeholder" else str(node.target)

    return [(node.op, target(node), spelled(node.args), [(key, spelled(value)) for key, value in node.kwargs.items()],
             repr(node.meta.get("val"))) for node in graph.nodes]


def _module_at(owner, path):
    for part in path.split("."):
        if part not in owner._modules:
            owner.add_module(part, InterpreterModule())
        owner = owner._modules[part]
    return owner


# --- Modules that run their graph


_sizes = []  # of the program that runs: what its symbols are now


class InterpreterModule(Module):
    """A module of the model with the part of the program that ran in it; without a graph where none did."""

    graph = None
    _signature = _exported = None

    def _take(self, graph, signature, exported):
        self.graph, self._signature, self._exported = graph, signature, exported
        graph.owning_module = self

    @property
    def code(self):
        return spell(self.graph, verbose=False)

    def print_readable(self, print_output=True, **kwargs):
        text = spell(self.graph, verbose=True)
        if print_output:
            print(text)
        return text

    def forward(self, *args, **kwargs):
        if self.graph is None:
            raise RuntimeError("this module was not called by itself while the model was exported")
        leaves = args
        if self._signature:
            leaves, spec = _pytree.tree_flatten((args, kwargs))
            if spec != self._signature.in_spec:
                raise TypeError(f"this module takes {self._signature.in_spec}, not {spec}")
        results = _interpret(self, self.graph, leaves, self._exported, _sizes[-1] if _sizes else {})
        if self._signature:
            return _pytree.tree_unflatten(results, self._signature.out_spec)
        return results[0] if len(results) == 1 else tuple(results)


def _interpret(module, graph, leaves, exported, sizes):
    values, places = {}, [node for node in graph.nodes if node.op == "placeholder"]
    if len(leaves) != len(places):
        raise TypeError(f"this module takes {len(places)} values ({', '.join(node.name for node in places)}), not {len(leaves)}")
    for node, leaf in zip(places, leaves):
        values[node] = leaf
        _bind(node.meta.get("val"), leaf, sizes, node.name)

    def resolve(argument):
        if isinstance(argument, Node):
            return values[argument]
        if isinstance(argument, (_atenon.SymInt, _atenon.SymFloat, _atenon.SymBool)):
            return _evaluate(str(argument), sizes)
        if isinstance(argument, (list, tuple, dict)):
            return _pytree.tree_map(lambda leaf: resolve(leaf), argument, is_leaf=lambda leaf: leaf is not argument)
        return argument

    for node in graph.nodes:
        if node.op == "get_attr":
            values[node] = _function(module, node.target, exported, sizes) if isinstance(node.target, Subgraph) else _attribute(module, node.target)
        elif node.op == "call_module":
            args, kwargs = resolve(node.args), {key: resolve(value) for key, value in node.kwargs.items()}
            _sizes.append(sizes)
            try:
                values[node] = _attribute(module, node.target)(*args, **kwargs)
            finally:
                _sizes.pop()
            if isinstance(node.meta["val"], tuple):
                values[node] = _pytree.tree_leaves(values[node])
        elif node.op == "call_function":
            args, kwargs = resolve(node.args), {key: resolve(value) for key, value in node.kwargs.items()}
            if node.target is _update:
                _atenon.assign(*args)
            elif node.target is operator.getitem:
                values[node] = node.target(*args)
            else:
                results = _pytree.tree_leaves(node.target(*args, **kwargs))  # of several, or of lists, flat
                values[node] = results if isinstance(node.meta["val"], tuple) else results[0]
                _bind(node.meta["val"], values[node], sizes, node.name)
        elif node.op == "output":
            return [resolve(value) for value in node.args[0]]


def _attribute(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _function(module, name, exported, sizes):
    graph = Graph(exported._program, name)
    return lambda *inputs: _interpret(module, graph, inputs, exported, dict(sizes))


def _bind(expected, actual, sizes, name):
    """What the symbols of a type are, as the value shows."""
    if isinstance(expected, FakeTensor) and hasattr(actual, "shape"):
        for size, found in zip(expected.shape, actual.shape):
            if isinstance(size, _atenon.SymInt) and str(size).isidentifier():
                sizes[str(size)] = found
    elif isinstance(expected, tuple) and isinstance(actual, (tuple, list)):
        for kind, item in zip(expected, actual):
            _bind(kind, item, sizes, name)
    elif isinstance(expected, str):
        sizes[name] = actual


def _evaluate(expression, sizes):
    """Sizes are spelled as Python's expressions."""
    import torch

    scope = {"min": torch.sym_min, "max": torch.sym_max, "float": torch.sym_float, "int": torch.sym_int, "sqrt": torch.sym_sqrt}
    try:
        return eval(expression, scope, sizes)
    except NameError as error:
        raise RuntimeError(f"the size {expression} is known where the whole program runs, not to this module alone") from error


class UnflattenedModule(ExportedModule):
    """The program as the modules that it came from: each runs its own part, and can be replaced by another that takes and
    gives the same (preserve_module_call_signature makes that what the model's module took and gave)."""

    _new_module = InterpreterModule

    def __init__(self, exported, flat_args_adapter=None):
        super().__init__(exported)
        self.flat_args_adapter = flat_args_adapter
        self._graph, *_ = (builder := _Builder(exported)).build(builder.root, self)

    @property
    def graph(self):
        return self._graph

    def __call__(self, *args, **kwargs):
        try:
            bound = inspect.signature(self.forward).bind(*args, **kwargs)
            is_known = _pytree.tree_structure((bound.args, bound.kwargs)) == self._exported._in_spec
        except TypeError:
            is_known = False
        return super().__call__(*args, **kwargs) if is_known else super().__call__(*self._adapted(args, kwargs))

    def _adapted(self, args, kwargs):
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        expected = self._exported._in_spec
        if self.flat_args_adapter is None:
            raise TypeError("There is no flat args adapter specified. Are you sure you are calling this with the right "
                            f"arguments? The program takes {expected}, not {spec}")
        args, kwargs = _pytree.tree_unflatten(self.flat_args_adapter.adapt(expected, spec, leaves), expected)
        return args + tuple(kwargs.values())

    def _run(self, args, kwargs):
        exported = self._exported
        leaves = _pytree.tree_leaves((args, kwargs))
        exported._program.check(leaves, self._state_now())
        return _pytree.tree_unflatten(_interpret(self, self._graph, leaves, exported, {}), exported._out_spec)


def unflatten(module, flat_args_adapter=None):
    return UnflattenedModule(module, flat_args_adapter)
