# torch.save and torch.load, of PyTorch's archives: a zip of one pickle, and beside it the bytes of each storage. A file may load
# what its model begins with, though `atenon capture --weights` is simpler, and maps what this copies.
#
# As in PyTorch weights_only, the default, unpickles tensors and containers of them and runs no code of the archive; without
# it a pickle may name any class, which is for archives that one trusts.
import collections
import os
import pickle
import zipfile

import torch
from torch import _utils
from torch._constants import answer, nothing

DEFAULT_PROTOCOL = 2  # of pickle, what torch.save writes by default
set_crc32_options = nothing
get_unsafe_globals_in_checkpoint = answer([])

_STORAGES = {  # by the names of their classes
    "HalfStorage": torch.float16, "BFloat16Storage": torch.bfloat16, "FloatStorage": torch.float32, "DoubleStorage": torch.float64,
    "ByteStorage": torch.uint8, "CharStorage": torch.int8, "ShortStorage": torch.int16, "IntStorage": torch.int32, "LongStorage": torch.int64,
    "BoolStorage": torch.bool, "ComplexFloatStorage": torch.complex64,
}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # what Python knows memory as
_SAFE = {("collections", "OrderedDict"), ("collections", "Counter"), ("collections", "defaultdict"), ("torch", "Size"), ("torch", "device"),
         ("torch.nn.parameter", "Parameter"), ("builtins", "set"), ("builtins", "complex"), ("builtins", "bytearray")}
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


class _Storage:
    """What a pickle refers to: the name of its class, and its elements in a row; of one that is saved, its tensor."""

    def __init__(self, name, elements):
        self.name, self.elements = name, elements


class _Unpickler(pickle.Unpickler):
    def __init__(self, archive, prefix, weights_only, **options):
        super().__init__(archive.open(prefix + "data.pkl"), **options)
        self.archive, self.prefix, self.weights_only = archive, prefix, weights_only
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
        kind, name, key, _, count = reference
        if kind != "storage" or name not in _STORAGES:
            raise pickle.UnpicklingError(f"the archive refers to a {kind} of {name}, which torch.load does not know")
        if key not in self.storages:
            data = self.archive.read(f"{self.prefix}data/{key}")
            bits = torch.empty(len(data) // _STORAGES[name].itemsize, dtype=_BITS[_STORAGES[name].itemsize])
            if data:
                memoryview(bits).cast("B")[:] = data
            self.storages[key] = _Storage(name, bits.view(_STORAGES[name]))
        return self.storages[key]


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    if not hasattr(f, "read"):
        files_loaded.append(os.path.abspath(f))
        os.stat(f)  # is it there?
    if not zipfile.is_zipfile(f):
        raise NotImplementedError("torch.load reads the archives that torch.save has written since PyTorch 1.6: save this one anew there")
    with zipfile.ZipFile(f) as archive:
        pickled = next((name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")), None)
        if pickled is None:
            raise RuntimeError("torch.load: the archive has no data.pkl, so torch.save has not written it")
        prefix = pickled.removesuffix("data.pkl")
        order = f"{prefix}byteorder"
        if order in archive.namelist() and archive.read(order) != b"little":
            raise NotImplementedError("torch.load reads archives of little-endian machines")
        return _Unpickler(archive, prefix, weights_only is not False, **pickle_load_args).load()


def _bytes(elements):
    return memoryview(elements.reshape(-1).view(_BITS[elements.itemsize])).cast("B") if elements.numel() else b""


class _Pickler(pickle.Pickler):
    def __init__(self, file, protocol):
        super().__init__(file, protocol)
        self.storages = []

    def reducer_override(self, value):
        if not isinstance(value, torch.Tensor):
            return NotImplemented
        if value._is_traced:
            raise NotImplementedError("torch.save of tensors that depend on the model's inputs is not supported: return them")
        if isinstance(value, torch.nn.Parameter):
            return _utils._rebuild_parameter, (value.detach(), value.requires_grad, collections.OrderedDict())
        rows = value.detach().contiguous()
        name = next((name for name, dtype in _STORAGES.items() if dtype == value.dtype), None)
        if name is None:
            raise NotImplementedError(f"torch.save of tensors of {value.dtype} is not supported")
        return _utils._rebuild_tensor_v2, (_Storage(name, rows), 0, tuple(rows.shape), rows.stride(), value.requires_grad, collections.OrderedDict())

    def persistent_id(self, value):
        if not isinstance(value, _Storage):
            return None
        self.storages.append(value.elements)
        return "storage", getattr(torch, value.name), str(len(self.storages) - 1), "cpu", value.elements.numel()


def save(obj, f, pickle_module=None, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True, _disable_byteorder_record=False):
    import io

    pickled = io.BytesIO()
    pickler = _Pickler(pickled, pickle_protocol)
    pickler.dump(obj)
    with zipfile.ZipFile(f, "w") as archive:
        archive.writestr("archive/data.pkl", pickled.getvalue())
        archive.writestr("archive/byteorder", "little")
        for key, elements in enumerate(pickler.storages):
            archive.writestr(f"archive/data/{key}", _bytes(elements))
        archive.writestr("archive/version", "3\n")
