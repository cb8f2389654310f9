#!/bin/sh
# The memory that `run --memory` prints: the arena is what its formula gives, at every batch of the range and at many
# lengths; a process takes what is printed, and at most 12 MB beside it and what starting it takes, at small sizes and
# large. Starting it takes 18 MB. The system maps up to 16 MB more of libraries whose files were written just before, and
# so lie in memory in large pieces: they are put aside first, and read anew. A session that serves many sizes takes what
# the largest does.
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
for model in mlp lstm mobilenet_v2 unet; do cp "$root/testdata/models/$model.py" "$work"; done
for model in mlp lstm mobilenet_v2 unet encoder; do
  atenon capture "$work/$model.py" | atenon decompose | atenon specialize | atenon lower -o "$work/$model.atn"
done
python3 - "$root" "$work" "${1:-build}" <<'PY'
import os, re, shutil, subprocess, sys

root, work, build = sys.argv[1:]

def planned(model, **sizes):
    """For each size in these ranges: arena, scratch, total; after a look at the formula."""
    command = ["atenon-run", f"{work}/{model}.atn", "--memory", "--threads", "2"]
    hints = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    formula = re.search(r"^arena +\d+ bytes = (.*)$", hints, re.MULTILINE)[1]
    weights = int(re.search(r"^weights (\d+)", hints)[1])
    for name, (low, high) in sizes.items():
        command += ["--size", f"{name}={low}..{high}"]
    found = {}
    for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        at = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}
        arena, scratch, total = map(int, re.search(r"arena (\d+), scratch (\d+).*, total (\d+) bytes$", line).groups())
        value = eval(formula, {"__builtins__": {}, "max": max, "min": min}, at)
        assert value == arena, f"{model} at {at}: {formula} is {value}, not {arena}"
        assert total >= weights + arena + scratch, line
        found[tuple(at.values())] = total
    count = 1
    for low, high in sizes.values():
        count *= high - low + 1
    assert len(found) == count, f"{model}: {len(found)} of {count} sizes"
    print(f"{model}: the formula holds at {count} sizes")
    return found

def peak_of(command):
    """The most resident memory of one run."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return usage.ru_maxrss * 1024

# A process that runs a program from f32[batch, 3, 256, 256] to f32[batch, 2, 256, 256] at these batches, in turn.
SERVER = """
import ctypes, sys
library, program, *batches = sys.argv[1:]
library = ctypes.CDLL(library)

class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("sizes", ctypes.c_void_p), ("data", ctypes.c_void_p)]

session = ctypes.c_void_p()
assert library.atenon_load_file(program.encode(), None, ctypes.byref(session), None) == 0
library.atenon_set_threads(2)
most = max(map(int, batches))
room = {channels: (ctypes.c_float * (most * channels * 256 * 256))() for channels in (3, 2)}
for batch in map(int, batches):
    sizes = {channels: (ctypes.c_int64 * 4)(batch, channels, 256, 256) for channels in room}
    x, y = (Tensor(2, 4, ctypes.addressof(sizes[c]), ctypes.addressof(room[c])) for c in (3, 2))
    assert library.atenon_run(session, ctypes.byref(x), 1, ctypes.byref(y), 1, None) == 0
"""

def peak_of_serving(*batches):
    library, program = f"{root}/{build}/lib/libatenon.so", f"{work}/unet.atn"
    return peak_of([sys.executable, "-c", SERVER, library, program, *map(str, batches)])

def read_anew(path):
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)

tool = shutil.which("atenon-run")
linked = subprocess.run(["ldd", tool], stdout=subprocess.PIPE, text=True, check=True).stdout
planned("mlp", batch=(1, 64))
# Bytes of inputs and outputs beside the shapes: they are the caller's.
RUNS = {"lstm": (["ids={batch},64"], 64 * 8, [1, 64]), "mobilenet_v2": (["x={batch},3,224,224"], 150528 * 4, [1, 2, 32]),
        "unet": (["x={batch},3,256,256"], (196608 + 131072) * 4, [1, 4]),
        "encoder": (["ids={batch},512", "mask={batch},512"], 512 * 9, [1, 64])}
for model, (inputs, bytes_of_one, batches) in RUNS.items():
    if model == "encoder":
        total = planned(model, batch=(1, 64), length=(512, 512))
        planned(model, batch=(1, 3), length=(2, 512))
    else:
        total = planned(model, batch=(1, 64))
    beside = []
    for path in [tool, *re.findall(r"=> (/\S+)", linked)]:
        read_anew(path)
    start = min(peak_of(["atenon-run", "--version"]) for _ in range(3))
    for batch in batches:
        words = [word for text in inputs for word in ("--input", text.format(batch=batch).replace("=", "=zeros[") + "]")]
        peak = min(peak_of(["atenon-run", f"{work}/{model}.atn", *words, "--threads", "2"]) for _ in range(3))
        at = (batch, 512) if model == "encoder" else (batch,)
        beside.append(peak - total[at] - batch * bytes_of_one)
    print(f"{model}: beside what is planned, a process takes {[round(b / 1e6, 1) for b in beside]} MB at batches {batches}, {start / 1e6:.1f} MB of it to start")
    if build == "build":  # a sanitizer's memory is its own
        assert 0 < min(beside) and max(beside) < start + 12e6, (model, start)
if build == "build":
    one, all_sizes = peak_of_serving(6), peak_of_serving(1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1)
    print(f"unet: a session that serves batches 1 to 6 takes {(all_sizes - one) / 1e6:.1f} MB more than at 6 alone")
    assert all_sizes < one + 12e6
PY
