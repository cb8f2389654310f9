#!/bin/sh
# The memory that `run --memory` prints: the arena is what its formula gives, at every batch of the range and at many
# lengths, and what a process takes beyond what is printed does not grow with the sizes.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/encoder.py" <<'PY'
import torch

class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(100, 64)
        self.layers = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2)
        self.merge = torch.nn.Conv1d(64, 32, 3, stride=2, padding=1)

    def forward(self, ids, mask):
        x = self.layers(self.tokens(ids), src_key_padding_mask=mask)
        return torch.cat([self.merge(x.transpose(1, 2)).amax(2), x.mean(1)], 1)

def model():
    return Encoder().eval()

def inputs():
    return torch.zeros(2, 16, dtype=torch.int64), torch.zeros(2, 16, dtype=torch.bool)

def dynamic_shapes():
    axes = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", min=2, max=512)}
    return {"ids": axes, "mask": axes}
PY
for model in mlp lstm mobilenet_v2; do cp "$root/testdata/models/$model.py" "$work"; done
for model in mlp lstm mobilenet_v2 encoder; do
  atenon capture "$work/$model.py" | atenon decompose | atenon specialize | atenon lower -o "$work/$model.atn"
done
python3 - "$work" "${1:-build}" <<'PY'
import os, re, subprocess, sys

work, build = sys.argv[1:]
INPUTS = {"mlp": {"x": "{batch},64"}, "lstm": {"ids": "{batch},64"}, "mobilenet_v2": {"x": "{batch},3,224,224"},
          "encoder": {"ids": "{batch},{length}", "mask": "{batch},{length}"}}

def run(model, sizes, *options):
    """What is printed, and the most that was resident, in bytes."""
    inputs = [word for name, shape in INPUTS[model].items() for word in ("--input", f"{name}=zeros[{shape.format(**sizes)}]")]
    process = subprocess.Popen(["atenon-run", f"{work}/{model}.atn", *inputs, "--threads", "2", *options], stdout=subprocess.PIPE, text=True)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, (model, sizes)
    return printed, usage.ru_maxrss * 1024

def planned(model, sizes):
    """Arena and scratch, after a look at the formula."""
    printed, _ = run(model, sizes, "--memory")
    arena, formula = re.search(r"^arena +(\d+) bytes = (.*)$", printed, re.MULTILINE).groups()
    value = eval(formula, {"__builtins__": {}, "max": max, "min": min}, dict(sizes))
    assert value == int(arena), f"{model} at {sizes}: {formula} is {value}, not {arena}"
    return int(arena) + int(re.search(r"^scratch (\d+) bytes$", printed, re.MULTILINE)[1])

several = (1, 2, 3, 7, 16, 33, 64)
cases = {"mlp": [{"batch": b} for b in range(1, 65)], "lstm": [{"batch": b} for b in range(1, 65)],
         "mobilenet_v2": [{"batch": b} for b in several],
         "encoder": [{"batch": b, "length": n} for b in several for n in (2, 3, 5, 17, 64, 127, 512)]}
for model, sizes in cases.items():
    for case in sizes:
        planned(model, case)
    print(f"{model}: the formula holds at {len(sizes)} sizes")

# Inputs are 0.6 MB an image, outputs little. A sanitizer's memory is its own.
if build == "build":
    rest = []
    for batch in (2, 32):
        rest.append(run("mobilenet_v2", {"batch": batch})[1] - planned("mobilenet_v2", {"batch": batch}) - batch * 3 * 224 * 224 * 4)
    assert abs(rest[1] - rest[0]) < 8e6, f"mobilenet_v2 takes {rest} bytes beside what is planned"
PY
