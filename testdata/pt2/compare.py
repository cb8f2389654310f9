"""compare.py EXPECTED GOT: every array of one .safetensors file is in the other, equal within 1e-4 + 1e-3 |expected|."""
import json
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + int.from_bytes(content[:8], "little")
    for name, entry in json.loads(content[8:start]).items():
        begin, end = entry["data_offsets"]
        code, size = {"F32": ("f", 4), "F64": ("d", 8), "I64": ("q", 8)}[entry["dtype"]]
        yield name, (entry["shape"], struct.unpack(f"<{(end - begin) // size}{code}", content[start + begin:start + end]))


expected, got = dict(read(sys.argv[1])), dict(read(sys.argv[2]))
for name, (shape, values) in expected.items():
    if name not in got or got[name][0] != shape:
        sys.exit(f"{name}: {shape} expected, {got.get(name, [None])[0]} given")
    for i, (a, b) in enumerate(zip(values, got[name][1])):
        if not abs(a - b) <= 1e-4 + 1e-3 * abs(a):
            sys.exit(f"{name}: element {i} is {b}, not {a}")
