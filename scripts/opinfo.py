"""Calls of single operators, from PyTorch's own samples (OpInfo), with what PyTorch makes of them. Needs PyTorch.

A sample of `info.sample_inputs` is a call of the first overload that takes it; what a composite operator calls inside
is a sample of those operators, too. `info.error_inputs` are calls that must fail.
"""
import collections
import dataclasses
import math
import sys

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
          torch.bool, torch.complex64]
TRIED = 24  # samples of an OpInfo and dtype that are looked at
UNSPELLED = {"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator"}
WIDER = {torch.float32: torch.float64, torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex64: torch.complex128}


@dataclasses.dataclass
class Call:
    target: str  # aten::add.Tensor; aten::add.* for whichever overload fits
    dtype: object  # of the first tensor, or None
    args: tuple
    kwargs: dict
    results: list  # leaves; None where the call must fail
    spec: list = None
    tensors: list = None


def target_of(overload):
    schema = overload._schema
    return schema.name + ("." + schema.overload_name if schema.overload_name else "")


def overload_of(target):
    name, _, overload = target.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")


class Unspellable(Exception):
    pass


def spell(value, tensors):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.dtype not in DTYPES + [torch.complex128] or value.is_quantized:
            raise Unspellable(str(value.dtype))
        value = value.detach().resolve_conj().resolve_neg()
        dense = value.is_contiguous()
        extent = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride()))
        flat = value.reshape(-1) if dense else value.as_strided((extent,), (1,)) if value.numel() else value.new_empty(0)
        if flat.dtype.is_complex:
            flat = torch.view_as_real(flat).reshape(-1)
        tensors.append([str(value.dtype).removeprefix("torch."), flat.tolist(), list(value.shape),
                        None if dense or not value.numel() else list(value.stride()), 0])
        return {"t": len(tensors) - 1}
    if isinstance(value, torch.dtype):
        return {"d": str(value).removeprefix("torch.")}
    if isinstance(value, complex):
        return {"c": [value.real, value.imag]}
    if isinstance(value, (list, tuple, torch.Size)):
        return [spell(item, tensors) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Unspellable(type(value).__name__)


class Samples(TorchDispatchMode):
    def __init__(self, wanted, per_kind, largest):
        super().__init__()
        self.wanted, self.per_kind, self.largest = wanted, per_kind, largest
        self.calls = []
        self.counts = collections.Counter()
        self.seen = set()

    def add(self, target, args, kwargs, out):
        leaves = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        if not target.endswith(".*"):  # PyTorch takes a tensor for a list of integers, too
            parameters = overload_of(target)._schema.arguments
            if any(isinstance(a, torch.Tensor) and "Tensor" not in str(p.type) for a, p in zip(args, parameters)):
                return
        dtype = next((a.dtype for a in leaves), kwargs.get("dtype"))
        fails = out is None
        key = (target, dtype, fails)
        if target.partition(".*")[0] not in self.wanted or self.counts[key] >= self.per_kind or dtype not in (*DTYPES, None):
            return
        if any(a.numel() > self.largest for a in leaves):
            return
        results = None if fails else tree_leaves(out)
        if not fails and not any(isinstance(r, (torch.Tensor, bool, int, float)) for r in results):
            return
        kwargs = {name: value for name, value in kwargs.items() if name not in UNSPELLED}
        tensors = []
        try:
            spec = [target, spell(list(args), tensors), {name: spell(value, tensors) for name, value in kwargs.items()}, fails]
        except Unspellable:
            return
        text = repr((spec, tensors))
        if text in self.seen:
            return
        self.seen.add(text)
        self.counts[key] += 1
        kept = [r.detach().resolve_conj().resolve_neg().clone() if isinstance(r, torch.Tensor) else r for r in results or []]
        copied = tree_map(lambda a: a.detach().clone() if isinstance(a, torch.Tensor) else a, (tuple(args), kwargs))
        self.calls.append(Call(target, dtype, *copied, None if fails else kept, spec, tensors))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        written = [i for i, a in enumerate(func._schema.arguments) if a.alias_info and a.alias_info.is_write]
        with _disable_current_modes():
            before = args
            if written == [0] and args and isinstance(args[0], torch.Tensor):
                before = (args[0].clone(), *args[1:])
            out = func(*args, **kwargs)
            if written in ([], [0]):
                self.add(target_of(func), before, kwargs, out)
        return out


def packets(wanted):
    by_name = collections.defaultdict(list)
    for target in wanted:
        by_name[target.removeprefix("aten::").partition(".")[0]].append(target)
    return by_name


def collect(wanted, names, per_kind, largest):
    """Calls of the targets in `wanted`, at most `per_kind` of each and dtype; `names` narrows to some OpInfos."""
    torch.manual_seed(0)
    samples = Samples(set(wanted), per_kind, largest)
    by_name = packets(wanted)
    for info in op_db:
        if names and info.name not in names and info.aten_name not in names:
            continue
        for dtype in DTYPES:
            if dtype not in info.supported_dtypes("cpu"):
                continue
            try:
                for i, sample in enumerate(info.sample_inputs("cpu", dtype)):
                    if i >= TRIED:
                        break
                    args, kwargs = (sample.input, *sample.args), sample.kwargs
                    for target in by_name.get(info.aten_name, []):
                        try:
                            out = overload_of(target)(*args, **kwargs)
                        except Exception:
                            continue
                        samples.add(target, args, kwargs, out)
                        break
                    try:
                        with samples:
                            info.op(*args, **kwargs)
                    except Exception:
                        pass
            except Exception as problem:  # a sample generator of PyTorch that fails by itself
                print(f"{info.name} {dtype}: {problem}", file=sys.stderr)
        collect_errors(info, samples, by_name)
    return samples.calls


def collect_errors(info, samples, by_name):
    packet = getattr(torch.ops.aten, info.aten_name or "", None)
    if info.error_inputs_func is None or info.aten_name not in by_name or packet is None:
        return
    try:
        inputs = list(info.error_inputs("cpu"))
    except Exception as problem:
        print(f"{info.name}, error inputs: {problem}", file=sys.stderr)
        return
    for case in inputs:
        args, kwargs = (case.sample_input.input, *case.sample_input.args), case.sample_input.kwargs
        try:
            packet(*args, **kwargs)
        except Exception:
            samples.wanted.add(f"aten::{info.aten_name}")
            samples.add(f"aten::{info.aten_name}.*", args, kwargs, None)


def sharper(call):
    """PyTorch's results in a wider dtype, for where its own rounding is what differs; None where that is no call."""
    def widened(x):
        return x.to(WIDER[x.dtype]) if isinstance(x, torch.Tensor) and x.dtype in WIDER else WIDER.get(x, x) if isinstance(x, torch.dtype) else x
    try:
        return tree_leaves(overload_of(call.target)(*tree_map(widened, call.args), **tree_map(widened, call.kwargs)))
    except Exception:
        return None


def close(have, want):
    try:
        torch.testing.assert_close(have, want, equal_nan=True)
        return None
    except AssertionError as problem:
        return " ".join(str(problem).split())


def difference(call, found):
    """Why what came out of a call is not what PyTorch has; None if it is. `found`: tensors and numbers."""
    if len(found) != len(call.results):
        return f"{len(found)} results, not {len(call.results)}"
    wide = None
    for i, (have, want) in enumerate(zip(found, call.results)):
        if not isinstance(want, torch.Tensor):
            if isinstance(want, float) and isinstance(have, (int, float)):
                if not (math.isclose(have, want, rel_tol=1e-5) or have == want or math.isnan(have) and math.isnan(want)):
                    return f"{have}, not {want}"
            elif have != want:
                return f"{have}, not {want}"
            continue
        if not isinstance(have, torch.Tensor):
            return f"a {type(have).__name__}, not a tensor"
        if have.dtype != want.dtype or have.shape != want.shape:
            return f"{have.dtype} {list(have.shape)}, not {want.dtype} {list(want.shape)}"
        problem = close(have, want)
        if problem and want.dtype in WIDER:
            wide = wide or sharper(call) or call.results
            if isinstance(wide[i], torch.Tensor) and wide[i].shape == want.shape:
                problem = problem and close(have, wide[i].to(want.dtype))
        if problem:
            return problem
    return None
