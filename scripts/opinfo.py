"""Calls of single operators, from PyTorch's own samples (OpInfo), with what PyTorch makes of them. Needs PyTorch.

A sample of `info.sample_inputs` is a call of each overload that takes it, or, where there is none, of the Python function; what
a composite operator calls inside is a sample of those operators, too. `info.error_inputs` are calls that must fail.
"""
import collections
import dataclasses
import functools
import hashlib
import math
import sys

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
          torch.bool, torch.complex64]
# Operators that say of equal elements not which they give, and which argument is the axis.
UNSTABLE = {"aten::topk": 2, "aten::sort": 1, "aten::kthvalue": 2, "aten::median.dim": 1, "aten::nanmedian.dim": 1, "aten::mode": 1,
            "aten::argsort": 1}
OWN = "own_samples"  # the part of the samples that stand in this file
INSIDE_TRIED = 24  # samples of an OpInfo and dtype whose insides are looked at
UNSPELLED = {"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator"}
WIDER = {torch.float32: torch.float64, torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex64: torch.complex128}


@dataclasses.dataclass
class Call:
    target: str  # aten::add.Tensor; aten::add.* for whichever overload fits; torch.fft.fftshift, a function of Python
    dtype: object  # of the first tensor, or None
    args: tuple
    kwargs: dict
    results: list  # leaves; None where the call must fail
    spec: list = None
    tensors: list = None


def target_of(overload):
    schema = overload._schema
    return schema.name + ("." + schema.overload_name if schema.overload_name else "")


def callee(target):
    """The overload, or the function of Python; None if there is none of the name."""
    if not target.startswith("aten::"):
        return functools.reduce(lambda owner, name: getattr(owner, name, None), target.split(".")[1:], torch)
    name, _, overload = target.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")


@dataclasses.dataclass
class Limits:
    """How much is looked at and kept; math.inf for all."""
    tried: float  # samples of an OpInfo and dtype
    direct: float  # calls by an OpInfo's own samples that are kept, for an overload and dtype
    inside: float  # calls from inside of others
    largest: float  # elements of a tensor


class Unspellable(Exception):
    pass


def spell(value, tensors):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_meta or value.dtype not in DTYPES + [torch.complex128] or value.is_quantized:
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
    def __init__(self, wanted, limits):
        super().__init__()
        self.wanted, self.limits = wanted, limits
        self.calls = []
        self.counts = collections.Counter()
        self.seen = set()

    def taken(self):
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls

    def add(self, target, args, kwargs, out, fails=False, inside=False):
        leaves = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        if target.startswith("aten::") and not target.endswith(".*"):  # PyTorch takes a tensor for a number or a list of integers, too
            parameters = callee(target)._schema.arguments
            given = [*zip(parameters, args), *((p, kwargs.get(p.name)) for p in parameters)]
            if any(isinstance(a, torch.Tensor) and "Tensor" not in str(p.type) for p, a in given):
                return
        dtype = next((a.dtype for a in leaves), kwargs.get("dtype"))
        key = (target, dtype, fails, inside)
        if "::" in target and target.partition(".*")[0] not in self.wanted or dtype not in (*DTYPES, None):
            return
        if self.counts[key] >= (self.limits.inside if inside else self.limits.direct):
            return
        if any(a.numel() > self.limits.largest for a in leaves) or kwargs.get("dropout_p"):  # or drawn at random
            return
        if "as_strided" in target and any(a.untyped_storage().nbytes() != a.numel() * a.itemsize for a in leaves):
            return  # it reads what lies around its operand, which is not in the spelling of a call
        results = None if fails else tree_leaves(out)
        if not fails and any(not isinstance(r, (torch.Tensor, bool, int, float, type(None))) for r in results):
            return
        kwargs = {name: value for name, value in kwargs.items() if name not in UNSPELLED}
        tensors = []
        try:
            spec = [target, spell(list(args), tensors), {name: spell(value, tensors) for name, value in kwargs.items()}, fails]
        except Unspellable:
            return
        text = hashlib.blake2b(repr((spec, tensors)).encode(), digest_size=16).digest()
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
                self.add(target_of(func), before, kwargs, out, inside=True)
        return out


def packets(wanted):
    """Name of an operator, without the underscore of an in-place form -> the overloads of it that are wanted."""
    by_name = collections.defaultdict(list)
    for target in wanted:
        name = target.removeprefix("aten::").partition(".")[0]
        by_name[name if name.startswith("__") else name.removesuffix("_")].append(target)
    return by_name


def called_directly(samples, targets, args, kwargs):
    """The call of a sample, of each overload that takes it; whether there was one."""
    took = False
    for target in targets:
        writes = target.partition(".")[0].endswith("_") and "__" not in target
        own = (args[0].clone(), *args[1:]) if writes and isinstance(args[0], torch.Tensor) else args
        try:
            out = callee(target)(*own, **kwargs)
        except Exception:
            continue
        took = True
        samples.add(target, args, kwargs, out)
    return took


def called_as_function(samples, info, args, kwargs):
    """The call of a sample, of the function of Python that it is for, unless that draws at random."""
    if callee(f"torch.{info.name}") is not info.op or info.name.startswith(("_", "empty", "new_empty")):  # these leave what they give open
        return
    outs, state = [], torch.get_rng_state()
    try:
        for seed in (0, 1):
            torch.default_generator.manual_seed(seed)
            outs.append(info.op(*args, **kwargs))
    except Exception:
        return
    finally:
        torch.set_rng_state(state)
    if all(not isinstance(a, torch.Tensor) or close(a, b) is None for a, b in zip(*map(tree_leaves, outs))):
        samples.add(f"torch.{info.name}", args, kwargs, outs[0])


def called_inside(samples, info, args, kwargs, backward):
    """What PyTorch's function calls when it takes a sample, and its derivative, too."""
    try:
        with samples:
            out = info.op(*args, **kwargs)
            if backward:
                sum(o.sum() for o in tree_leaves(out) if isinstance(o, torch.Tensor) and o.requires_grad).backward()
    except Exception:
        pass


def parts(wanted, chosen, limits):
    """Pairs of a part's name, an OpInfo's or `OWN`, and its calls of the targets in `wanted`; `chosen` says of a part whether it is asked for."""
    samples = Samples(set(wanted), limits)
    by_name = packets(wanted)
    variants = collections.defaultdict(list)
    for info in op_db:
        variants[info.name].append(info)
    for name, infos in variants.items():
        if chosen(name) or any(chosen(info.aten_name) for info in infos):
            torch.manual_seed(0)
            for info in infos:
                collect(info, samples, by_name)
            yield name, samples.taken()
    if chosen(OWN):
        torch.manual_seed(0)
        with torch.no_grad():
            for target, args, kwargs in own_samples():
                called_directly(samples, [target] if target in wanted else [], args, kwargs)
        yield OWN, samples.taken()


def collect(info, samples, by_name):
    """Adds the calls of an OpInfo."""
    packet = info.aten_name.removeprefix("nn_functional_").removeprefix("nn.functional.")
    packet = packet.removeprefix("torch.ops.aten.").removesuffix(".default").replace(".", "_")
    targets = [t for name in (packet, *(a.name.replace(".", "_") for a in info.aliases)) for t in by_name.get(name, [])]
    for dtype in DTYPES:
        if dtype not in info.supported_dtypes("cpu"):
            continue
        backward = dtype == torch.float32 and info.supports_autograd
        try:
            for i, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=backward)):
                if i >= samples.limits.tried:
                    break
                args, kwargs = (sample.input, *sample.args), sample.kwargs
                with torch.no_grad():
                    called_directly(samples, targets, args, kwargs) or called_as_function(samples, info, args, kwargs)
                if i < INSIDE_TRIED:
                    called_inside(samples, info, args, kwargs, backward)
        except Exception as problem:  # a sample generator of PyTorch that fails by itself
            print(f"{info.name} {dtype}: {problem}", file=sys.stderr)
    collect_errors(info, packet, samples, by_name)


def own_samples():
    """Calls of operators that no OpInfo calls by their own signature."""
    x, y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    image, volume = torch.randn(2, 3, 6, 5), torch.randn(1, 2, 4, 5, 3)
    truth, whole = x > 0, torch.arange(24).reshape(2, 3, 4)
    one = torch.ones(3)
    yield "aten::dropout", (x, 0.5, False), {}
    yield "aten::dropout_", (x, 0.5, False), {}
    yield "aten::_assert_tensor_metadata", (x, [2, 3, 4], None, torch.float32), {}
    yield "aten::_assert_scalar", (1, "holds"), {}
    yield "aten::_is_all_true", (truth,), {}
    yield "aten::_is_all_true", (x == x,), {}
    for kind in DTYPES:
        yield "aten::to.dtype", (x, kind), {}
        yield "aten::to.dtype", (whole, kind), {"copy": True}
        yield "aten::to.dtype_layout", (x,), {"dtype": kind}
        yield "aten::type_as", (x, torch.zeros(1, dtype=kind)), {}
        yield "aten::fill_.Tensor", (x.to(kind), torch.tensor(2.5)), {}
        yield "aten::fill.Tensor", (x.to(kind), torch.tensor(2)), {}
        yield "aten::zero", (x.to(kind),), {}
        yield "aten::copy", (x.to(kind), whole), {}
        yield "aten::lift_fresh_copy", (x.to(kind),), {}
    yield "aten::to.device", (x, "cpu", torch.float64), {}
    yield "aten::detach_", (x,), {}
    for numbers in (x, whole):
        for number in (2, -1.5):
            yield "aten::where.Scalar", (truth, number, 3), {}
            yield "aten::where.ScalarOther", (truth, numbers, number), {}
            yield "aten::where.ScalarSelf", (truth, number, numbers), {}
            yield "aten::gt.Scalar", (numbers, number), {}
            yield "aten::fmod.Scalar", (numbers, number), {}
            for rounding in (None, "trunc", "floor"):
                yield "aten::div.Scalar_mode", (numbers, number), {"rounding_mode": rounding}
        yield "aten::floor_divide_.Tensor", (numbers, numbers.abs() + 1), {}
        yield "aten::pow_.Scalar", (numbers, 2), {}
    for base in (2, 0.5, -1.5):
        yield "aten::pow.Scalar", (base, x), {}
    for name in ("and", "or", "xor"):
        yield f"aten::bitwise_{name}.Scalar", (whole, 6), {}
        yield f"aten::__{name}__.Tensor", (whole, whole.flip(0)), {}
        yield f"aten::__{name}__.Tensor", (truth, y > 0), {}
    yield "aten::broadcast_tensors", ([x, one.reshape(3, 1)],), {}
    yield "aten::einsum", ("bij,bkj->bik", [x, y]), {}
    yield "aten::einsum", ("...i,i", [x, torch.randn(4)]), {}
    yield "aten::_weight_norm", (x, torch.randn(2, 1, 1), 0), {}
    yield "aten::batch_norm", (image, one, one * 2, one * 0, one, False, 0.1, 1e-5, False), {}
    yield "aten::instance_norm", (image, one, one, one * 0, one, True, 0.1, 1e-5, False), {}
    yield "aten::_native_batch_norm_legit_no_training", (image, one, one * 2, one * 0, one, 0.1, 1e-5), {}
    for padding in ("same", "valid"):
        yield "aten::conv2d.padding", (image, torch.randn(4, 3, 3, 3), torch.randn(4), [1, 1], padding), {}
    yield "aten::conv_transpose3d.input", (volume, torch.randn(2, 3, 2, 2, 2), torch.randn(3), [2, 1, 1], [1, 0, 0]), {}
    for mode in (0, 1):
        yield "aten::grid_sampler", (image, torch.rand(2, 4, 4, 2) * 2 - 1, mode, 0, True), {}
    yield "aten::max_pool3d", (volume, [2, 2, 2], [1, 2, 1], [1, 0, 0]), {}
    for name, extra, wanted in (("nearest2d", (), image), ("bilinear2d", (False,), image), ("bicubic2d", (True,), image), ("trilinear3d", (True,), volume)):
        sizes = [n + 2 for n in wanted.shape[2:]]
        yield f"aten::upsample_{name}.vec", (wanted, sizes, *extra, None), {}
        yield f"aten::upsample_{name}.vec", (wanted, None, *extra, [2.0] * len(sizes)), {}
    yield "aten::max_pool2d", (image, [3, 2], [2, 2], [1, 0], [1, 1], True), {}
    yield "aten::max_pool2d", (image[0], [2, 2]), {}
    for size in ([2, 3], [1, 1], [7, 5]):
        yield "aten::adaptive_avg_pool2d", (image, size), {}
    for p in (0.0, 1.0, 2.0, 3.0, math.inf):
        yield "aten::cdist", (x, y, p), {}
    yield "aten::numpy_T", (x[0],), {}
    yield "aten::slice_scatter", (x, torch.zeros(2, 2, 4), 1, 0, 2), {}
    for kind, parts, call in ((torch.nn.LSTM, 2, "aten::lstm.input"), (torch.nn.GRU, 1, "aten::gru.input")):
        for layers, both in ((1, False), (2, True)):
            net = kind(4, 5, layers, bidirectional=both, batch_first=True)
            state = [torch.randn(layers * (1 + both), 2, 5) for _ in range(parts)]
            yield call, (x, state if parts == 2 else state[0], [p.detach() for p in net.parameters()], True, layers, 0.0, False, both, True), {}
    bag = (torch.randn(5, 3), torch.tensor([1, 2, 4, 0]), torch.tensor([0, 2]))
    for mode in (0, 1, 2):
        yield "aten::_embedding_bag", (*bag, False, mode), {}
    yield "aten::embedding_dense_backward", (torch.randn(4, 3), torch.tensor([1, 0, 1, 2]), 5, -1, False), {}
    yield "aten::avg_pool2d_backward", (torch.randn(2, 3, 3, 2), image, [2, 2], [2, 2], [0, 0], False, True, None), {}
    yield "aten::_adaptive_avg_pool2d_backward", (torch.randn(2, 3, 2, 2), image), {}
    yield "aten::index_put_", (x, [torch.tensor([0, 1]), torch.tensor([2, 0])], torch.randn(2, 4)), {}
    yield "aten::round_", (x,), {}


def collect_errors(info, packet, samples, by_name):
    if info.error_inputs_func is None:
        return
    if packet in by_name and hasattr(torch.ops.aten, packet):
        target, function = f"aten::{packet}.*", getattr(torch.ops.aten, packet)
        samples.wanted.add(f"aten::{packet}")
    elif callee(f"torch.{info.name}") is info.op:
        target, function = f"torch.{info.name}", info.op
    else:
        return
    try:
        inputs = list(info.error_inputs("cpu"))
    except Exception as problem:
        print(f"{info.name}, error inputs: {problem}", file=sys.stderr)
        return
    for case in inputs:
        args, kwargs = (case.sample_input.input, *case.sample_input.args), case.sample_input.kwargs
        try:
            function(*args, **kwargs)
        except Exception:
            places = [a.untyped_storage().data_ptr() for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor) and a.numel()]
            if len(set(places)) == len(places):  # that tensors share memory is not in the spelling of a call
                samples.add(target, args, kwargs, None, fails=True)


def sharper(call):
    """PyTorch's results in a wider dtype, for where its own rounding is what differs; None where that is no call."""
    def widened(x):
        return x.to(WIDER[x.dtype]) if isinstance(x, torch.Tensor) and x.dtype in WIDER else WIDER.get(x, x) if isinstance(x, torch.dtype) else x
    try:
        return tree_leaves(callee(call.target)(*tree_map(widened, call.args), **tree_map(widened, call.kwargs)))
    except Exception:
        return None


def close(have, want):
    try:
        torch.testing.assert_close(have, want, equal_nan=True)
        return None
    except AssertionError as problem:
        return " ".join(str(problem).split())


def error_of(tensor, wide):
    """The largest distance from what a wider dtype gives; NaN where one of the two is no number alone."""
    return (tensor.to(wide.dtype) - wide).abs().max() if tensor.numel() else 0


def same_places(call, found):
    """Do the places lie where the values are?"""
    self, position = call.args[0], UNSTABLE[call.target]
    dim = call.args[position] if len(call.args) > position else call.kwargs.get("dim", -1)
    places, wanted = found[-1], call.results[-1]
    if places.dtype != wanted.dtype or places.shape != wanted.shape or places.numel() and not 0 <= places.min() <= places.max() < max(self.numel(), 1):
        return False
    if self.dim() == 0 or not places.numel():
        return True
    kept = places if places.dim() == self.dim() else places.unsqueeze(dim)
    values = found[0] if len(found) == 2 else self.gather(dim, wanted)
    return close(self.gather(dim, kept).reshape(values.shape), values) is None


def found(leaves):
    """Tensors and numbers as opinfo_model.encoded() wrote them."""
    values = []
    for dtype, shape, numbers in leaves:
        if not isinstance(numbers, list):
            values.append(numbers)
            continue
        kind = getattr(torch, dtype)
        if kind.is_complex:
            flat = torch.tensor(numbers, dtype=torch.float64 if kind == torch.complex128 else torch.float32)
            values.append(torch.view_as_complex(flat.reshape(-1, 2)).reshape(shape))
        else:
            values.append(torch.tensor(numbers, dtype=kind).reshape(shape))
    return values


def difference(call, found):
    """Why what came out of a call is not what PyTorch has; None if it is. `found`: tensors and numbers."""
    if len(found) != len(call.results):
        return f"{len(found)} results, not {len(call.results)}"
    if call.target in UNSTABLE and not same_places(call, found):
        return "the values at these places are others"
    wide = None
    for i, (have, want) in enumerate(zip(found, call.results)):
        if want is None or i == len(found) - 1 and call.target in UNSTABLE:  # what nobody asked for; of equal elements any
            continue
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
                no_farther = wide is not call.results and error_of(have, wide[i]) <= error_of(want, wide[i])
                problem = None if no_farther else close(have, wide[i].to(want.dtype))
        if problem:
            return problem
    return None
