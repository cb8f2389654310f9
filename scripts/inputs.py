#!/usr/bin/python3
"""Deterministic test inputs, the same on every machine, and .npy / .npz files without NumPy.

The values are a formula, so that tests in any language can make them. For input number `salt` (its position in the
signature) and the flat, row-major index i:

    h = mix(i mod 65521 + 65521 * (salt + 1))    mix: the 32-bit finaliser of MurmurHash3
    uniform         (h >> 8) / 2^23 - 1          a float in [-1, 1), exact in float32
    below N         h mod N                      an integer in [0, N)
    prefix A,B,..   1 where the last index < the entry of the row (row r, modulo the entries' number), else 0
    values A,B,..   these values

65521 is prime, so the repetition falls in step with no dimension, and millions of elements cost one table.

    inputs.py x=uniform:f32[3,3,224,224] ids=below30000:i64[1,128] mask=prefix120,100:i64[2,128] -o FOLDER | FILE.npz
"""
import array
import os
import re
import struct
import sys
import zipfile

PERIOD = 65521
SCALARS = {"f32": ("f", "<f4"), "f64": ("d", "<f8"), "i64": ("q", "<i8"), "i32": ("i", "<i4"), "u8": ("B", "|u1"), "i8": ("b", "|i1"),
           "u16": ("H", "<u2"), "i16": ("h", "<i2"), "bool": ("B", "|b1")}


def mix(h):
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def values(fill, dtype, shape, salt=0):
    """The flat elements of an input as array.array."""
    code, n = SCALARS[dtype][0], count(shape)
    kind, text = re.fullmatch(r"([a-z]+)([-0-9.,]*)", fill).groups()
    if kind == "values":
        return array.array(code, [(float if code in "fd" else int)(v) for v in text.split(",")])
    if kind == "prefix":
        lengths, width = [int(v) for v in text.split(",")], shape[-1]
        rows = [[1] * k + [0] * (width - k) for k in lengths]
        out = array.array(code)
        for r in range(n // width if width else 0):
            out.extend(rows[r % len(rows)])
        return out
    hashes = [mix(i + PERIOD * (salt + 1) & 0xFFFFFFFF) for i in range(min(n, PERIOD))]
    if kind == "uniform":
        table = array.array(code, [(h >> 8) / 8388608 - 1 for h in hashes])
    elif kind == "below":
        limit = int(text)
        table = array.array(code, [h % limit for h in hashes])
    else:
        raise ValueError(f"no fill named {kind!r}")
    return (table * -(-n // PERIOD))[:n] if n > PERIOD else table


def npy(dtype, shape, data):
    """The bytes of a .npy file of version 1.0."""
    sizes = "(" + ", ".join(map(str, shape)) + (",)" if len(shape) == 1 else ")")
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (SCALARS[dtype][1], sizes)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data.tobytes()


def read_npy(data):
    """(dtype, shape, elements) of a .npy file's bytes."""
    if data[:6] != b"\x93NUMPY":
        raise ValueError("not a .npy file")
    size, start = (struct.unpack("<H", data[8:10])[0], 10) if data[6] == 1 else (struct.unpack("<I", data[8:12])[0], 12)
    header = data[start:start + size].decode("latin1")
    descr = re.search(r"'descr': *'([^']*)'", header).group(1)
    shape = tuple(int(v) for v in re.findall(r"\d+", re.search(r"'shape': *\(([^)]*)\)", header).group(1)))
    if "'fortran_order': True" in header and len(shape) > 1:
        raise ValueError("column-major .npy files are not read here")
    dtype = next(k for k, v in SCALARS.items() if v[1] == descr)
    elements = array.array(SCALARS[dtype][0])
    elements.frombytes(data[start + size:])
    return dtype, shape, elements


def read(path):
    """{name: (dtype, shape, elements)} of an .npz file, or of an .npy file under the name ''."""
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            return {"": read_npy(file.read())}
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy"): read_npy(archive.read(name)) for name in archive.namelist()}


def write(path, entries):
    """Writes {name: .npy bytes} as an .npz file, or as one .npy file each into a folder."""
    if not path.endswith(".npz"):
        os.makedirs(path, exist_ok=True)
        for name, data in entries.items():
            with open(os.path.join(path, name + ".npy"), "wb") as file:
                file.write(data)
        return
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name + ".npy"), data)  # ZipInfo's default date: no clock in the file


def parse(text):
    """NAME=FILL:DTYPE[SIZES] -> (name, fill, dtype, shape)."""
    match = re.fullmatch(r"([^=]+)=([^:]+):(\w+)\[([\d,]*)\]", text)
    if not match:
        raise ValueError(f"{text!r} is not NAME=FILL:DTYPE[SIZES]")
    name, fill, dtype, sizes = match.groups()
    return name, fill, dtype, tuple(int(v) for v in sizes.split(",") if v)


def main(args):
    if "-o" not in args or args.index("-o") + 2 != len(args):
        sys.exit(__doc__)
    path, entries = args[-1], {}
    for salt, text in enumerate(args[:-2]):
        name, fill, dtype, shape = parse(text)
        entries[name] = npy(dtype, shape, values(fill, dtype, shape, salt))
    write(path, entries)


if __name__ == "__main__":
    main(sys.argv[1:])
