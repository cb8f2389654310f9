# What torch.export gives for the cases of a file, as JSON: signature, dimensions, operators after decomposition to core, and
# what the exported module computes. Run by PyTorch it also says what the model itself computes.
#
#   python describe.py FILE.py > expected.json
#   atenon capture --script describe.py FILE.py > actual.json
import collections
import copy
import importlib
import json
import os
import sys

import torch

IS_PYTORCH = "_atenon" not in sys.modules
if IS_PYTORCH:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "scripts"))
    import eager_loops

    eager_loops.install()


def leaf(value):
    if not isinstance(value, torch.Tensor):
        return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
    numbers = value.detach().reshape(-1)
    if value.dtype.is_complex:
        numbers = torch.view_as_real(numbers).reshape(-1)
    values = numbers.to(torch.float64).tolist() if value.dtype.is_floating_point else numbers.tolist()
    return {"dtype": str(value.dtype), "shape": list(value.shape),
            "values": [float(f"{v:.7g}") if isinstance(v, float) else v for v in values]}


def called(model, args, kwargs):
    """Outputs, then the inputs and buffers as the call left them."""
    args, kwargs = copy.deepcopy((args, kwargs))
    outputs = model(*args, **kwargs)
    tree = torch.utils._pytree
    buffers = {name: leaf(b) for name, b in sorted(model.named_buffers())}
    return {"outputs": [leaf(x) for x in tree.tree_leaves(outputs)], "type": type(outputs).__name__,
            "inputs": [leaf(x) for x in tree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)], "buffers": buffers}


def spelled(size, names):
    """A size with its symbols renamed in order of appearance: d0, 2*d0."""
    text = str(size)
    symbol = text if text.isidentifier() else None
    if symbol:
        return names.setdefault(symbol, f"d{len(names)}")
    if text.lstrip("-").isdigit():
        return int(text)
    for name, short in names.items():
        text = text.replace(name, short)
    return text


def described(case):
    ep = torch.export.export(case.model, case.args, case.kwargs, dynamic_shapes=case.shapes)
    functional = ep.run_decompositions({})
    unread = {n.name for n in functional.graph.nodes if n.op == "placeholder" and not n.users}
    signature = functional.graph_signature
    written = {spec.target for spec in signature.output_specs if spec.target}
    inputs = [[spec.kind.name, spec.target] for spec in signature.input_specs
              if spec.kind.name == "USER_INPUT" or spec.arg.name not in unread or spec.target in written]
    # A constant that forward updates is a buffer of no state dict in Atenon: PyTorch calls it a constant.
    names = {}
    values = {n.name: n.meta.get("val") for n in ep.graph.nodes if n.op == "placeholder"}
    user = [values.get(getattr(spec.arg, "name", "")) for spec in ep.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    dims = [[spelled(size, names) for size in v.shape] for v in user if hasattr(v, "shape")]
    ranges = {}
    for symbol, values_of in ep.range_constraints.items():
        if str(symbol) in names:
            upper = str(values_of.upper)
            ranges[names[str(symbol)]] = [int(values_of.lower), int(upper) if upper.isdigit() else None]
    targets = collections.Counter(str(n.target) for n in ep.run_decompositions().graph.nodes
                                  if n.op == "call_function" and "getitem" not in str(n.target))
    return ep, {"inputs": inputs, "outputs": [[spec.kind.name, spec.target] for spec in signature.output_specs], "dims": dims,
                "ranges": ranges, "targets": dict(sorted(targets.items()))}


def cases_of(path):
    """The @cases of a file; of a file in the manner of PyTorch's ExportDB, its model with its example inputs."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    torch.manual_seed(0)
    name = os.path.basename(path).removesuffix(".py")
    module = importlib.import_module(name)
    if hasattr(module, "example_args"):
        from cases import Case

        extra = getattr(module, "extra_inputs", None)
        return [Case(name, module.model, module.example_args, getattr(module, "example_kwargs", {}),
                     getattr(module, "dynamic_shapes", None), [extra] if extra else [])]
    return sys.modules["cases"].cases


def main(path):
    found = {}
    for case in cases_of(path):
        model = copy.deepcopy(case.model)
        calls = [(case.args, case.kwargs), *((args, case.kwargs) for args in case.others)]
        try:
            ep, entry = described(case)
            if IS_PYTORCH:  # the model itself is the reference: PyTorch's own export may differ from it
                entry["calls"] = [called(model, *call) for call in calls]
            else:
                module = ep.module()
                entry["calls"] = [called(module, *call) for call in calls]
        except Exception as error:
            text = str(error).splitlines()
            code = getattr(error, "code", None)
            name = f"E{code:04}" if isinstance(code, int) else type(error).__name__
            entry = {"error": name + ": " + (text[0] if text else "")}
            if IS_PYTORCH:
                entry["calls"] = [called(model, *call) for call in calls]
        found[case.name] = entry
    print(json.dumps(found, indent=None))


if __name__ == "__main__":
    main(sys.argv[1])
