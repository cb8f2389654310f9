# The nodes of one graph of a program, in order, and their spelling as Python.
import operator

from torch import _dtypes
from torch._ops import ops
from torch.fx.node import FakeTensor, Node, fake_value

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


class Graph:
    def __init__(self, program=None, name="", placeholders=None):
        """The graph `name` of a native program; `placeholders` are (name of the value or "", name, constant)."""
        self._nodes = []
        self._by_name = {}
        self._values = set()  # names that the program has given
        self._taken = {}  # how far the numbers behind a name have come
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
        return list(self._nodes)

    def output_node(self):
        return self._nodes[-1]

    def find_nodes(self, *, op, target=None, sort=True):
        return [node for node in self._nodes if node.op == op and (target is None or node.target == target)]

    def lint(self):
        pass

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


def _spell_call(node):
    if node.target is operator.getitem:
        return f"{node.args[0]}[{node.args[1]}]"
    arguments = [*map(repr, node.args), *(f"{key} = {value!r}" for key, value in node.kwargs.items())]
    callee = f"self.{node.target}" if node.op == "call_module" else f"torch.ops.{node.target}"
    return f"{callee}({', '.join(arguments)})"


def spell(graph, verbose):
    """forward as Python; with the types and the user's lines where `verbose`. A value is let go after its last reader."""
    last = {}
    for node in graph._nodes:
        for operand in node.all_input_nodes:
            last[operand] = node
    parameters = ", ".join(_annotated(node, verbose) for node in graph._nodes if node.op == "placeholder")
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
        spelled = f"self.{node.target}" if node.op == "get_attr" else _spell_call(node)
        gone = [operand.name for operand in node.all_input_nodes if last[operand] is node]
        gone += [] if node.users else [node.name]
        release = f";  {' = '.join(gone)} = None" if gone else ""
        lines.append(f"    {_annotated(node, verbose)} = {spelled}{release}")
    return "\n".join(lines) + "\n"


class CodeGen:
    """Scripts only name it."""
