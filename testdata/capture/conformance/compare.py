# Holds what `atenon capture` gives for the models of this folder to what PyTorch gives (describe.py wrote both).
#
#   compare.py REFERENCE.json ACTUAL.json
#
# Outputs, updated inputs and buffers must agree, as must signature, dimensions and ranges. A line is printed for each thing
# that does not; operators after decomposition to core are printed by --operators, with what each side has more.
import collections
import json
import sys

RELATIVE, ABSOLUTE = 2e-5, 1e-6  # float32 sums in another order


COARSE = 2**-6  # bfloat16 has eight bits, and PyTorch rounds between other operators than we do


def close(a, b, absolute=ABSOLUTE, relative=RELATIVE):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y, absolute, relative) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        bounds = (COARSE, COARSE) if a.get("dtype") == "torch.bfloat16" else (absolute, relative)
        return a.keys() == b.keys() and all(close(a[key], b[key], *bounds) for key in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= absolute + relative * abs(a)
    return a == b and type(a) is type(b)


def differences(reference, actual):
    """(what, PyTorch's, Atenon's) for one model."""
    if "error" in actual:
        yield "error", reference.get("error", "exports"), actual["error"]
        return
    for expected, got in zip(reference["calls"], actual["calls"]):
        for part in expected:
            theirs = expected[part]
            if part == "buffers":  # a program has those that forward reads or updates
                theirs = {name: value for name, value in theirs.items() if name in got[part]}
            if not close(theirs, got[part]):
                yield part, theirs, got[part]
    if "error" in reference:
        yield "export", reference["error"], "a right program"
        return
    for part in ("inputs", "outputs", "dims", "ranges"):
        if reference[part] != actual[part]:
            yield part, reference[part], actual[part]


def main(reference, actual):
    with open(reference) as file:
        expected = json.load(file)
    with open(actual) as file:
        got = json.load(file)
    for name, entry in expected.items():
        for what, theirs, ours in differences(entry, got.get(name, {"error": "missing"})):
            print(f"{name}: {what}: PyTorch {theirs}, Atenon {ours}")


def operators(reference, actual):
    """Which operators one side uses more often, over all models."""
    more = {"PyTorch": collections.Counter(), "Atenon": collections.Counter()}
    for path, other in zip(reference, actual):
        with open(path) as a, open(other) as b:
            expected, got = json.load(a), json.load(b)
        for name in expected:
            if "targets" in expected[name] and "targets" in got[name]:
                theirs, ours = (collections.Counter(d[name]["targets"]) for d in (expected, got))
                more["PyTorch"] += theirs - ours
                more["Atenon"] += ours - theirs
    for side, counts in more.items():
        print(side, dict(sorted(counts.items())))


if __name__ == "__main__":
    if sys.argv[1] == "--operators":
        half = len(sys.argv[2:]) // 2
        operators(sys.argv[2:2 + half], sys.argv[2 + half:])
    else:
        main(sys.argv[1], sys.argv[2])
