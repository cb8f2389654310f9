# torch.save and torch.load, of PyTorch's archives: a zip of one pickle, and beside it the bytes of each storage. A file may load
# what its model begins with, though `atenon capture --weights` is simpler, and maps what this copies.
#
# Until PyTorch 1.6 a file was pickles in a row, and then the storages. In that form a storage lies in a pickle that torch.save has
# not written, too: a cache of a library's on disk can so be read by PyTorch and by us, whoever wrote it.
#
# As in PyTorch weights_only, the default, unpickles tensors and containers of them and runs no code of the archive; without
# it a pickle may name any class, which is for archives that one trusts.
import array
import collections
import contextlib
import io
import os
import pickle
import struct
import typing
import zipfile

import _atenon
import torch
from torch import _utils
from torch._constants import answer, nothing

DEFAULT_PROTOCOL = 2  # of pickle, what torch.save writes by default
MAP_LOCATION: typing.TypeAlias = typing.Callable | _atenon.device | str | dict[str, str] | None  # what libraries annotate with
set_crc32_options = nothing
get_unsafe_globals_in_checkpoint = answer([])

_STORAGES = {  # by the names of their classes
    "HalfStorage": torch.float16, "BFloat16Storage": torch.bfloat16, "FloatStorage": torch.float32, "DoubleStorage": torch.float64,
    "ByteStorage": torch.uint8, "CharStorage": torch.int8, "ShortStorage": torch.int16, "IntStorage": torch.int32, "LongStorage": torch.int64,
    "BoolStorage": torch.bool, "ComplexFloatStorage": torch.complex64,
}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # what Python knows memory as
_CODES = {1: "B", 2: "h", 4: "i", 8: "q"}  # and its arrays
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # what files until PyTorch 1.6 begin with
_SAFE = {("collections", "OrderedDict"), ("collections", "Counter"), ("collections", "defaultdict"), ("torch", "Size"), ("torch", "device"),
         ("torch.nn.parameter", "Parameter"), ("torch._tensor", "_rebuild_from_type_v2"), ("builtins", "set"), ("builtins", "complex"), ("builtins", "bytearray")}
_safe_globals = []
files_loaded = []  # for --depfile


def add_safe_globals(safe_globals):
    _safe_globals.extend(safe_globals)


def get_safe_globals():
    return list(_safe_globals)


def clear_safe_globals():
    _safe_globals.clear()


class safe_globals:
    def __init__(self, safe_globals):
        self.added = safe_globals

    def __enter__(self):
        self.before = get_safe_globals()
        add_safe_globals(self.added)

    def __exit__(self, *exception):
        _safe_globals[:] = self.before


class skip_data:
    def __init__(self, *args, **options):
        raise NotImplementedError("torch.serialization.skip_data is not supported: save whole archives")


class _Memory(array.array):
    """Bytes that are to be a tensor's, as NumPy's are."""

    __array_interface__ = True


class _Storage:
    """What a pickle refers to: the name of its class, and its elements in a row."""

    def __init__(self, name, elements=None, memory=None):
        self.name, self.made, self.memory, self.is_filled = name, elements, memory, True

    @property
    def elements(self):
        if self.made is None:
            if not self.is_filled and _atenon.is_tracing():  # a constant of the graph has no memory to fill later
                raise NotImplementedError("torch.load in forward of a file that torch.save wrote before PyTorch 1.6 is not supported: load it before")
            self.made = _atenon.tensor_over(self.memory).view(_STORAGES[self.name])
        return self.made

    def __reduce__(self):
        from torch.storage import _load_from_bytes

        file = io.BytesIO()
        save(self, file, _use_new_zipfile_serialization=False)
        return _load_from_bytes, (file.getvalue(),)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, read, weights_only, **options):
        super().__init__(file, **options)
        self.read, self.weights_only = read, weights_only
        self.storages = {}

    def find_class(self, module, name):
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return name
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if module == "torch._utils" and name in _utils.rebuilders:
            return getattr(_utils, name)
        if not self.weights_only or (module, name) in _SAFE:
            return super().find_class(module, name)
        for entry in _safe_globals:
            safe, path = entry if isinstance(entry, tuple) else (entry, f"{entry.__module__}.{entry.__qualname__}")
            if path == f"{module}.{name}":
                return safe
        raise pickle.UnpicklingError(f"Weights only load failed: the archive names {module}.{name}, which is no part of a state dict. "
                                     f"If you trust it, torch.load(..., weights_only=False), or torch.serialization.add_safe_globals([{name}])")

    def persistent_load(self, reference):
        kind, name, *rest = reference
        if kind == "module":  # a class, with its source
            return name
        if kind != "storage" or name not in _STORAGES:
            raise pickle.UnpicklingError(f"the archive refers to a {kind} of {name}, which torch.load does not know")
        key, _, count, *view = rest
        if any(view):
            raise NotImplementedError("torch.load of storages that are parts of others is not supported: save this file anew")
        if key not in self.storages:
            self.storages[key] = self.read(name, key, count)
        return self.storages[key]


def _read_legacy(file, weights_only, **options):
    def unpickled(read=None):
        unpickler = _Unpickler(file, read, weights_only, **options)
        return unpickler.load(), unpickler.storages

    def reserve(name, key, count):
        width = _STORAGES[name].itemsize
        storage = _Storage(name, memory=_Memory(_CODES[width], bytes(count * width)))
        storage.is_filled = False
        return storage

    try:
        begin = unpickled()[0]
    except pickle.UnpicklingError as error:
        raise ValueError(error) from None
    if begin != _MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = unpickled()[0]
    if version != _PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {version}")
    if not unpickled()[0].get("little_endian", True):
        raise NotImplementedError("torch.load reads files of little-endian machines")
    result, storages = unpickled(reserve)
    for key in unpickled()[0]:
        storage = storages[key]
        memory = memoryview(storage.memory)
        count, = struct.unpack("<q", file.read(8))
        if count != len(memory) or file.readinto(memory.cast("B") if count else bytearray()) != memory.nbytes:
            raise RuntimeError("torch.load: the file ends within a storage, or has one of another size than its tensors say")
        storage.is_filled = True
    return result


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    if not hasattr(f, "read"):
        files_loaded.append(os.path.abspath(f))
        os.stat(f)  # is it there?
    weights_only = weights_only is not False
    start = f.tell() if hasattr(f, "read") else 0
    if not zipfile.is_zipfile(f):
        with contextlib.nullcontext(f) if hasattr(f, "read") else open(f, "rb") as file:
            file.seek(start)
            try:
                return _read_legacy(file, weights_only, **pickle_load_args)
            except (EOFError, KeyError, ValueError, struct.error) as error:
                raise RuntimeError(f"torch.load: torch.save has not written this file, or it is damaged ({error})") from None
    with zipfile.ZipFile(f) as archive:
        pickled = next((name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")), None)
        if pickled is None:
            raise RuntimeError("torch.load: the archive has no data.pkl, so torch.save has not written it")
        prefix = pickled.removesuffix("data.pkl")
        order = f"{prefix}byteorder"
        if order in archive.namelist() and archive.read(order) != b"little":
            raise NotImplementedError("torch.load reads archives of little-endian machines")

        def read(name, key, count):
            return _Storage(name, memory=_Memory(_CODES[_STORAGES[name].itemsize], archive.read(f"{prefix}data/{key}")))

        return _Unpickler(archive.open(pickled), read, weights_only, **pickle_load_args).load()


def reduced(value):
    """How a tensor is pickled: the call that makes it again, of its storage."""
    if value._is_traced:
        raise NotImplementedError("pickling of tensors that depend on the model's inputs is not supported: return them")
    rows = value.detach().clone()  # strides as they are, though not what lies between elements
    name = next((name for name, dtype in _STORAGES.items() if dtype == value.dtype), None)
    if name is None:
        raise NotImplementedError(f"pickling of tensors of {value.dtype} is not supported")
    storage = _Storage(name, rows.as_strided((rows.numel(),), (1,)))
    return _utils._rebuild_tensor_v2, (storage, 0, tuple(rows.shape), rows.stride(), value.requires_grad, collections.OrderedDict())


def _bytes(elements):
    return memoryview(elements.reshape(-1).view(_BITS[elements.itemsize])).cast("B") if elements.numel() else b""


class _Pickler(pickle.Pickler):
    def __init__(self, file, protocol, view=()):
        super().__init__(file, protocol)
        self.storages, self.view = [], view

    def persistent_id(self, value):
        if isinstance(value, torch.Tensor) and value.is_sparse:
            raise NotImplementedError("torch.save of sparse tensors is not supported: save their indices and values")
        if not isinstance(value, _Storage):
            return None
        self.storages.append(value.elements)
        return "storage", getattr(torch, value.name), str(len(self.storages) - 1), "cpu", value.elements.numel(), *self.view


def _save_legacy(obj, file, protocol):
    for fact in _MAGIC, _PROTOCOL, {"protocol_version": _PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}:
        pickle.dump(fact, file, protocol)
    pickler = _Pickler(file, protocol, (None,))
    pickler.dump(obj)
    pickle.dump([str(key) for key in range(len(pickler.storages))], file, protocol)
    for elements in pickler.storages:
        file.write(struct.pack("<q", elements.numel()))
        file.write(_bytes(elements))


def save(obj, f, pickle_module=None, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True, _disable_byteorder_record=False):
    if not _use_new_zipfile_serialization:
        with contextlib.nullcontext(f) if hasattr(f, "write") else open(f, "wb") as file:
            return _save_legacy(obj, file, pickle_protocol)
    pickled = io.BytesIO()
    pickler = _Pickler(pickled, pickle_protocol)
    pickler.dump(obj)
    with zipfile.ZipFile(f, "w") as archive:
        archive.writestr("archive/data.pkl", pickled.getvalue())
        archive.writestr("archive/byteorder", "little")
        for key, elements in enumerate(pickler.storages):
            archive.writestr(f"archive/data/{key}", _bytes(elements))
        archive.writestr("archive/version", "3\n")
