#!/usr/bin/python3
"""What real PyTorch makes of the models in testdata/models, as small files that are checked in, and the check against them.

  reference.py make [MODEL...]         needs torch 2.13.0: writes testdata/reference/MODEL.json and ops.json
  reference.py check MODEL PROGRAM [--case CASE]... [--build FOLDER] [-- OPTION...]
                                       needs only Python: runs PROGRAM by atenon-run on the inputs of each case and holds
                                       the outputs to the file; options after -- go to atenon-run
  reference.py inputs MODEL CASE -o FOLDER | FILE.npz      writes the inputs of a case

MODEL.json: `cases`, each with inputs (how scripts/inputs.py makes them) and outputs: whole up to 64 KB, else 256 fixed
positions; always with the Euclidean norm and the largest magnitude. `state`: for each parameter and buffer its shape, the
sum, the sum of magnitudes, the first four values, and a sum in which element i weighs i mod 101 - 50 (so order matters).
ops.json: for each model how often each operator occurs as exported, after run_decompositions({}) and after
run_decompositions(), and the graph signature after run_decompositions({}).
"""
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
import inputs  # noqa: E402  (a neighbour in scripts/)

MODELS = os.path.join(ROOT, "testdata", "models")
REFERENCE = os.path.join(ROOT, "testdata", "reference")
WHOLE, SAMPLES = 64 << 10, 256
ATOL, RTOL = 1e-4, 1e-3  # |difference| <= ATOL + RTOL |reference|

image = lambda size: lambda b, s: [("x", "uniform", "f32", (b, 3, size, size))]
PREFIX = {128: "prefix120,100,128", 37: "prefix30,37,12"}
CASES = {  # model: (inputs for batch and sequence, sequence lengths)
    "resnet50": (image(224), [None]),
    "mobilenet_v2": (image(224), [None]),
    "vit_b16": (image(224), [None]),
    "unet": (image(256), [None]),
    "mlp": (lambda b, s: [("x", "uniform", "f32", (b, 64))], [None]),
    "lstm": (lambda b, s: [("ids", "below10000", "i64", (b, 64))], [None]),
    "bert": (lambda b, s: [("ids", "below30000", "i64", (b, s)), ("mask", PREFIX[s], "i64", (b, s))], [128, 37]),
    "gpt2": (lambda b, s: [("ids", "below50000", "i64", (b, s))], [128, 37]),
    "gpt2_decode": (lambda b, s: [("ids", "below50000", "i64", (b, 1)), ("pos", "values128", "i64", (1,)),
                                  ("kc", "uniform", "f32", (12, b, 12, 256, 64)),
                                  ("vc", "uniform", "f32", (12, b, 12, 256, 64))], [None]),
}


def cases(model):
    """{case name: [(input name, fill, dtype, shape)]}, the way inputs.py is asked for them."""
    make, lengths = CASES[model]
    return {f"b{b}" + (f"s{s}" if s else ""): make(b, s) for s in lengths for b in (1, 3)}


def distance(path, wanted):
    """The largest |difference| / (ATOL + RTOL |reference|) of an .npz's arrays, in order, from `wanted`, NumPy's, too."""
    import numpy
    with numpy.load(path) as archive:
        return distance_of([archive[name] for name in archive.files], wanted)


def distance_of(found, wanted):
    """The same of arrays."""
    import numpy
    types, wanted_types = ([(x.dtype.name, x.shape) for x in arrays] for arrays in (found, wanted))
    if types != wanted_types:
        raise RuntimeError(f"outputs are {types}, not {wanted_types}")
    worst = 0.0
    for have, want in zip(found, wanted):
        want = want.astype("c16" if numpy.iscomplexobj(want) else "f8")
        ratio = numpy.abs(have - want) / (ATOL + RTOL * numpy.abs(want))
        worst = max(worst, float(numpy.where(numpy.isnan(ratio), numpy.inf, ratio).max(initial=0)))
    return worst


def arrays(spec):
    """The inputs of a case: {name: (dtype, shape, elements)}."""
    return {name: (dtype, shape, inputs.values(fill, dtype, shape, salt))
            for salt, (name, fill, dtype, shape) in enumerate(spec)}


# --- make: with torch ------------------------------------------------------------------------------------------------

def tensors(spec):
    import torch
    dtypes = {"f32": torch.float32, "i64": torch.int64}
    return [torch.frombuffer(elements, dtype=dtypes[dtype]).reshape(shape)
            for dtype, shape, elements in arrays(spec).values()]


def load(model):
    import importlib.util
    spec = importlib.util.spec_from_file_location(model, os.path.join(MODELS, model + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves(value):
    """[(pytree path, tensor)] of what forward returned; a single tensor is `0`."""
    import torch
    from torch.utils import _pytree
    if isinstance(value, torch.Tensor):
        return [("0", value)]
    key = lambda k: str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k))))
    return [(".".join(key(k) for k in path), leaf) for path, leaf in _pytree.tree_flatten_with_path(value)[0]]


def digest(tensor):
    import torch
    v = tensor.detach().double().reshape(-1)
    weights = torch.arange(v.numel()) % 101 - 50
    return {"shape": list(tensor.shape), "sum": v.sum().item(), "abs_sum": v.abs().sum().item(),
            "first": [number(x) for x in v[:4].tolist()], "weighted": (v * weights).sum().item()}


def number(x):
    """A float32 in the fewest digits that give it back."""
    return float(f"{x:.9g}")


def sample(name, tensor):
    import torch
    v = tensor.detach().reshape(-1)
    out = {"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
           "norm": v.double().norm().item(), "max_abs": v.double().abs().max().item()}
    if v.numel() * v.element_size() > WHOLE:
        stride = v.numel() // SAMPLES
        out["positions"] = [k * stride + inputs.mix(k + 1) % stride for k in range(SAMPLES)]
        v = v[torch.tensor(out["positions"])]
    out["values"] = [number(x) for x in v.tolist()]
    return out


def make_model(model):
    import torch
    torch.manual_seed(0)
    net = load(model).model()
    result = {"model": model, "torch": "2.13.0", "cases": {}, "state": {}}
    with torch.no_grad():
        for case, spec in cases(model).items():
            outputs = leaves(net(*tensors(spec)))
            result["cases"][case] = {
                "inputs": [{"name": n, "fill": f, "dtype": d, "shape": list(s)} for n, f, d, s in spec],
                "outputs": [sample(name, tensor) for name, tensor in outputs]}
    persistent = net.state_dict().keys()
    for kind, named in (("parameter", net.named_parameters(remove_duplicate=False)),
                        ("buffer", net.named_buffers(remove_duplicate=False))):
        for name, tensor in named:
            result["state"][name] = {"kind": kind, "persistent": name in persistent, **digest(tensor)}
    return result


def spelled(target):
    """aten::add.Tensor; what is not an operator of torch keeps its Python name."""
    if hasattr(target, "_schema"):
        name, overload = target._schema.name, target._schema.overload_name
        return name + ("." + overload if overload else "")
    return f"{getattr(target, '__module__', '?').lstrip('_')}.{target.__name__}"


def count_ops(program):
    """Calls in all graphs of the program: subgraphs of control flow count too."""
    counts = {}
    for module in program.graph_module.modules():
        for node in getattr(module, "graph").nodes if hasattr(module, "graph") else ():
            if node.op == "call_function":
                counts[spelled(node.target)] = counts.get(spelled(node.target), 0) + 1
    return dict(sorted(counts.items()))


def make_ops(model):
    import torch
    module = load(model)
    net, example, dynamic = module.model(), module.inputs(), module.dynamic_shapes()
    # torch.export refuses a dynamic dimension whose example size is 1: repeat the inputs there.
    wide = tuple(tensor.repeat([2 if dims.get(d) is not None and tensor.shape[d] == 1 else 1 for d in range(tensor.dim())])
                 for tensor, dims in zip(example, dynamic.values()))
    with torch.no_grad():
        exported = torch.export.export(net, wide, dynamic_shapes=dynamic, strict=False)
        functional = exported.run_decompositions({})
        core = functional.run_decompositions()
    signature = functional.graph_signature
    specs = lambda items: [[s.kind.name, getattr(s.arg, "name", repr(s.arg)), s.target] for s in items]
    return {"exported": count_ops(exported), "functional": count_ops(functional), "core": count_ops(core),
            "inputs": specs(signature.input_specs), "outputs": specs(signature.output_specs)}


def dump(value, path):
    """JSON with one line for each innermost list or object: small, and readable in a diff."""
    def flat(v):
        items = v.values() if isinstance(v, dict) else v if isinstance(v, list) else ()
        return not any(isinstance(x, dict) or isinstance(x, list) and len(x) > 8 and isinstance(x[0], list) for x in items)

    def text(v, indent):
        if flat(v) and not (isinstance(v, list) and v and isinstance(v[0], list)):
            return json.dumps(v, separators=(", ", ": ") if isinstance(v, dict) else (",", ":"))
        deeper = "\n" + " " * (indent + 1)
        if isinstance(v, dict):
            return "{" + ",".join(deeper + json.dumps(k) + ": " + text(x, indent + 1) for k, x in v.items()) + "}"
        return "[" + ",".join(deeper + text(x, indent + 1) for x in v) + "]"

    with open(path, "w") as file:
        file.write(text(value, 0) + "\n")
    print(f"{os.path.relpath(path, ROOT)}: {os.path.getsize(path)} bytes")


def make(models):
    import torch
    assert torch.__version__.startswith("2.13.0"), torch.__version__
    torch.set_num_threads(2)
    os.makedirs(REFERENCE, exist_ok=True)
    ops_path = os.path.join(REFERENCE, "ops.json")
    ops = json.load(open(ops_path)) if os.path.exists(ops_path) else {}
    for model in models or sorted(CASES):
        dump(make_model(model), os.path.join(REFERENCE, model + ".json"))
        ops[model] = make_ops(model)
        dump(dict(sorted(ops.items())), ops_path)


# --- check: without torch ----------------------------------------------------------------------------------------------

def differences(expected, got):
    """None if the output (dtype, shape, elements) agrees with the reference, else what is wrong; and the worst difference."""
    dtype, shape, elements = got
    if {"f32": "float32", "f64": "float64", "i64": "int64"}.get(dtype, dtype) != expected["dtype"]:
        return f"is {dtype}, not {expected['dtype']}", math.inf
    if list(shape) != expected["shape"]:
        return f"has shape {list(shape)}, not {expected['shape']}", math.inf
    positions = expected.get("positions") or range(len(elements))
    worst, wrong = 0.0, None
    for position, want in zip(positions, expected["values"]):
        off = abs(elements[position] - want)
        worst = max(worst, off) if off == off else math.inf
        if not off <= ATOL + RTOL * abs(want) and wrong is None:
            wrong = f"is {elements[position]:.9g} at flat position {position}, not {want:.9g}"
    norm = math.sqrt(math.fsum(x * x for x in elements))
    peak = max(map(abs, elements), default=0.0)
    for what, is_, want in (("norm", norm, expected["norm"]), ("largest magnitude", peak, expected["max_abs"])):
        if not abs(is_ - want) <= ATOL + RTOL * want and wrong is None:
            wrong = f"has {what} {is_:.9g}, not {want:.9g}"
    return wrong, worst


def check(model, program, names, build, options):
    reference = json.load(open(os.path.join(REFERENCE, model + ".json")))["cases"]
    failed = 0
    for case in names or reference:
        with tempfile.TemporaryDirectory() as folder:
            given, out = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
            inputs.write(given, {n: inputs.npy(*v) for n, v in arrays(cases(model)[case]).items()})
            run = subprocess.run([os.path.join(build, "bin", "atenon-run"), program, "--inputs", given, "-o", out, *options],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            problems, worst = [run.stdout.strip() or f"exit {run.returncode}"] if run.returncode else [], 0.0
            got = list(inputs.read(out).values()) if not problems else []  # in flattened order, as the reference has them
        expected = reference[case]["outputs"]
        if not problems and len(got) != len(expected):
            problems = [f"{len(got)} outputs, not {len(expected)}"]
        for want, have in zip(expected, got):
            wrong, off = differences(want, have)
            worst = max(worst, off)
            if wrong:
                problems.append(f"output {want['name']} {wrong}")
        print(f"{model} {case}: " + ("; ".join(problems) if problems else f"agrees, at most {worst:.2g} away"))
        failed += bool(problems)
    return 1 if failed else 0


def main(args):
    if args[:1] == ["make"]:
        return make(args[1:])
    if args[:1] == ["inputs"] and len(args) == 5 and args[3] == "-o":
        return inputs.write(args[4], {n: inputs.npy(*v) for n, v in arrays(cases(args[1])[args[2]]).items()})
    if args[:1] == ["check"] and len(args) >= 3:
        model, program, rest, names, build, options = args[1], args[2], args[3:], [], os.path.join(ROOT, "build"), []
        while rest:
            word = rest.pop(0)
            if word == "--":
                options, rest = rest, []
            elif word == "--case":
                names.append(rest.pop(0))
            elif word == "--build":
                build = rest.pop(0)
            else:
                sys.exit(f"reference.py: no option {word}")
        return check(model, program, names, build, options)
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
