# The nodes of a graph, in order, and their spelling as Python. A graph is a view of one of a program, or what scripts and a
# Tracer have put together node by node.
import builtins
import contextlib
import keyword
import operator
import re

from torch import _dtypes
from torch._ops import ops
from torch.fx.node import FakeTensor, Node, _qualified, fake_value, map_arg

__all__ = ["CodeGen", "Graph"]


class Value(str):
    """How the native module names a value of the graph."""


class Subgraph(str):
    """How the native module names a subgraph: the branch of a cond."""


class HigherOrderTarget:
    """What a node with subgraphs calls."""

    def __init__(self, name):
        self.namespace, _, self.__name__ = name.partition("::")

    def name(self):
        return self.__name__

    def __call__(self, *arguments):
        from torch._higher_order_ops import _run_node

        return _run_node(self.__name__, arguments)

    def __repr__(self):
        return f"{self.namespace}.{self.__name__}"


def _target(name):
    qualified, _, overload = name.partition(".")
    namespace, _, operator_name = qualified.partition("::")
    try:
        return getattr(getattr(getattr(ops, namespace), operator_name), overload or "default")
    except AttributeError:
        return HigherOrderTarget(name)


class _NodeList:
    """The nodes as they are while one walks: what is erased is left out, what is put in further on is met."""

    def __init__(self, nodes, step=1):
        self._nodes = nodes
        self._step = step

    def __len__(self):
        return len(self._nodes)

    def __reversed__(self):
        return _NodeList(self._nodes, -self._step)

    def __iter__(self):
        nodes, place = self._nodes, 0 if self._step > 0 else len(self._nodes) - 1
        while 0 <= place < len(nodes):
            node = nodes[place]
            yield node
            if place < len(nodes) and nodes[place] is node:
                place += self._step
            elif node._erased is None:
                place = nodes.index(node) + self._step
            else:
                while node is not None and node._erased is not None:
                    node = node._erased[self._step > 0]
                place = -1 if node is None else nodes.index(node)


class Graph:
    _tracer_cls = None  # of the Tracer that has made it

    def __init__(self, program=None, name="", placeholders=None):
        """The graph `name` of a native program; `placeholders` are (name of the value or "", name, constant)."""
        self._nodes = []
        self._by_name = {}
        self._values = set()  # names that the program has given
        self._taken = {}  # how far the numbers behind a name have come
        self._insertion = (None, 0)  # before this node or, with a 1, behind it: always next to it; None is both ends
        self._is_view = program is not None
        self.owning_module = None
        if program is not None:
            self._read(program, name, placeholders)

    def _read(self, program, name, placeholders):
        inputs, nodes, outputs = program.graph(name)
        types = dict(inputs)
        self._values = {name for _, results, *_ in nodes for name, _ in results} | types.keys()
        for value, shown, constant in placeholders or [(value, value, None) for value, _ in inputs]:
            node = self._add(shown, "placeholder", shown)
            node.meta["val"] = fake_value(types[value]) if value else constant
            if value:
                self._by_name[value] = node
        for described in nodes:
            self._add_call(*described)
        self._add("output", "output", "output", (tuple(map(self._resolve, outputs)),))

    def _add(self, name, op, target, args=(), kwargs=None):
        node = Node(self, name, op, target, args, kwargs)
        self._nodes.append(node)
        return node

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        wish = name or (target if isinstance(target, str) else getattr(target, "__name__", str(target)))
        node = Node(self, self._named(wish), op, target, args or (), kwargs or {})
        node.type = type_expr
        self._put(node, *self._insertion)
        return node

    def _put(self, node, anchor, behind):
        if anchor is None:
            self._nodes.insert(0 if behind else len(self._nodes), node)
        else:
            self._nodes.insert(self._nodes.index(anchor) + behind, node)

    def _named(self, wish):
        """A name that Python reads: layers.0 is layers_0."""
        name = re.sub("[^0-9a-zA-Z_]+", "_", wish.lstrip("*"))
        name = f"_{name}" if not name or name[0].isdigit() else name
        name = re.sub(r"(?<=.)_\d+$", "", name) if name in self._values else name
        while (found := self._free(name)) in dir(builtins) or keyword.iskeyword(found):
            pass
        self._values.add(found)
        return found

    def placeholder(self, name, type_expr=None, default_value=...):
        return self.create_node("placeholder", name, () if default_value is ... else (default_value,), type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result, type_expr=None):
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def erase_node(self, to_erase):
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                               f"{to_erase.users}!")
        to_erase.args, to_erase.kwargs = (), {}
        place = self._nodes.index(to_erase)
        to_erase._erased = (self._nodes[place - 1] if place else None,
                            self._nodes[place + 1] if place + 1 < len(self._nodes) else None)
        del self._nodes[place]

    def _move(self, node, anchor, behind):
        if node is not anchor:
            self._nodes.remove(node)
            self._put(node, anchor, behind)

    @contextlib.contextmanager
    def _inserting(self, node, behind):
        outer, self._insertion = self._insertion, (node, behind)
        try:
            yield
        finally:
            self._insertion = outer

    def inserting_before(self, n=None):
        return self._inserting(n, 1 if n is None else 0)

    def inserting_after(self, n=None):
        return self._inserting(n, 0 if n is None else 1)

    def node_copy(self, node, arg_transform=lambda x: x):
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g, val_map, return_output_node=False):
        """Copies the nodes of `g` behind ours; gives what its output is here."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None):
        copied, of = Graph(), {}
        copied._is_view, copied._values, copied._taken = self._is_view, set(self._values), dict(self._taken)
        copied._tracer_cls = self._tracer_cls
        for node in self._nodes:
            args, kwargs = map_arg((node.args, node.kwargs), of.__getitem__)
            of[node] = copied._add(node.name, node.op, node.target, args, kwargs)
            of[node].type, of[node].meta = node.type, dict(node.meta)
        return copied

    def eliminate_dead_code(self, is_impure_node=None):
        before = len(self._nodes)
        for node in reversed(list(self._nodes)):
            if not node.users and not (is_impure_node or Node.is_impure)(node):
                self.erase_node(node)
        return len(self._nodes) < before

    def _add_call(self, target, results, args, kwargs, frames, module_path, module_class):
        meta = {"stack_trace": "".join(f'  File "{file}", line {line}, in {function}\n    {code}\n'
                                       for file, line, function, code in frames),
                "nn_module_stack": {module_path: (module_path, module_class)} if module_class else {}, "frames": frames}
        name = results[0][0] if results else self._free(target.partition("::")[2].partition(".")[0])
        node = self._add(name, "call_function", _target(target), map(self._resolve, args),
                         {key: self._resolve(value) for key, value in kwargs.items()})
        node.meta.update(meta)
        values = [fake_value(type) for _, type in results]
        node.meta["val"] = values[0] if len(values) == 1 else tuple(values)
        if len(results) == 1:
            self._by_name[name] = node
            return
        for index, (result, _) in enumerate(results):
            item = self._add(self._free("getitem"), "call_function", operator.getitem, (node, index))
            item.meta.update(meta, val=values[index])
            self._by_name[result] = item

    def _free(self, wish):
        """The first of wish, wish_1, wish_2, ... that no value of the program has and no node has taken."""
        number = self._taken.get(wish, 0)
        while (name := f"{wish}_{number}" if number else wish) in self._values:
            number += 1
        self._taken[wish] = number + 1
        return name

    def _resolve(self, argument):
        if isinstance(argument, Value):
            return self._by_name[argument]
        if isinstance(argument, Subgraph):
            return self._attribute(argument)
        if isinstance(argument, list):
            return [self._resolve(item) for item in argument]
        return argument

    def _attribute(self, name):
        for node in self._nodes:
            if node.op == "get_attr" and node.target == name:
                return node
        return self._add(str(name), "get_attr", str(name))

    @property
    def nodes(self):
        return list(self._nodes) if self._is_view else _NodeList(self._nodes)

    def output_node(self):
        return self._nodes[-1]

    def find_nodes(self, *, op, target=None, sort=True):
        return [node for node in self._nodes if node.op == op and (target is None or node.target == target)]

    def lint(self):
        seen = set()
        for node in self._nodes:
            for operand in node.all_input_nodes:
                if operand not in seen:
                    raise RuntimeError(f"Argument '{operand}' of Node '{node}' was used before it has been defined! "
                                       f"Please check that Nodes in the graph are topologically ordered\n{self}")
            seen.add(node)

    def print_tabular(self):
        rows = [("opcode", "name", "target", "args", "kwargs"),
                *((n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self._nodes)]
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    def python_code(self, root_module="self", verbose=False):
        return _Code(spell(self, verbose))

    def __str__(self):
        return "\n".join(["graph():", *("    " + node.format_node() for node in self._nodes)])


class _Code:
    def __init__(self, src):
        self.src = src


def _type(value):
    if isinstance(value, FakeTensor):
        return f"{_dtypes.short_name(value.dtype)}[{', '.join(map(str, value.shape))}]"
    return {"int": "Sym", "float": "Sym", "bool": "Sym"}.get(value) if isinstance(value, str) else None


def _annotated(node, verbose):
    kind = _type(node.meta.get("val")) if verbose else None
    return f'{node.name}: "{kind}"' if kind else node.name


_INFIX = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
          operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.eq: "==", operator.ne: "!=", operator.lt: "<",
          operator.gt: ">", operator.le: "<=", operator.ge: ">=", operator.lshift: "<<", operator.rshift: ">>",
          operator.and_: "&", operator.or_: "|", operator.xor: "^"}
_PREFIX = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}


def _member(target):
    """self.layers.0 as Python says it."""
    place = "self"
    for name in target.split("."):
        place = f"{place}.{name}" if name.isidentifier() else f'getattr({place}, "{name}")'
    return place


def _spell_call(node):
    if node.target is operator.getitem:
        return f"{node.args[0]}[{node.args[1]}]"
    if node.target is getattr and len(node.args) == 2 and node.args[1].isidentifier():
        return f"{node.args[0]}.{node.args[1]}"
    if node.op == "call_function" and node.target in _INFIX:
        return f"{node.args[0]!r} {_INFIX[node.target]} {node.args[1]!r}"
    if node.op == "call_function" and node.target in _PREFIX:
        return f"{_PREFIX[node.target]}{node.args[0]!r}"
    arguments = [*map(repr, node.args), *(f"{key} = {value!r}" for key, value in node.kwargs.items())]
    if node.op == "call_method":
        callee, arguments = f"{arguments[0]}.{node.target}", arguments[1:]
    else:
        callee = _member(node.target) if node.op == "call_module" else _qualified(node.target)
    return f"{callee}({', '.join(arguments)})"


def spell(graph, verbose):
    """forward as Python; with the types and the user's lines where `verbose`. A value is let go after its last reader."""
    last = {}
    for node in graph._nodes:
        for operand in node.all_input_nodes:
            last[operand] = node
    parameters = ", ".join(_annotated(node, verbose) + (f" = {node.args[0]!r}" if node.args else "") for node in graph._nodes if node.op == "placeholder")
    lines, place = [f"def forward(self, {parameters}):" if parameters else "def forward(self):"], None
    for node in graph._nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            lines.append(f"    return {node.args[0]!r}")
            continue
        frames = node.meta.get("frames")
        if verbose and frames and frames[-1] != place:
            place = frames[-1]
            lines += [] if len(lines) == 1 else [""]
            lines.append(f"    # File: {place[0]}:{place[1]} in {place[2].rpartition('.')[2]}, code: {place[3]}")
        spelled = _member(node.target) if node.op == "get_attr" else _spell_call(node)
        gone = [operand.name for operand in node.all_input_nodes if last[operand] is node]
        gone += [] if node.users else [node.name]
        release = f";  {' = '.join(gone)} = None" if gone else ""
        lines.append(f"    {_annotated(node, verbose)} = {spelled}{release}")
    return "\n".join(lines) + "\n"


class CodeGen:
    """Scripts only name it."""
