# What people write around tensors: more of Python, and more of what nn.Module lets one do.
import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import types
import typing
import warnings
import weakref

import torch
import torch.nn.functional as F
from torch import nn

from cases import by_size, case, ints, rand

BATCH = {0: torch.export.Dim("batch", max=64)}


# --- Python


@case(rand(3, 4), shapes=(BATCH,), others=by_size(lambda n: rand(n, 4), 1, 6))
def generators_and_contexts(self, x):
    @contextlib.contextmanager
    def scaled(by):
        yield x * by

    def parts():
        received = yield x + 1
        yield received * 2
        yield from (x * i for i in range(2))

    steps = parts()
    first = next(steps)
    second = steps.send(first)
    with scaled(3) as y, contextlib.suppress(ZeroDivisionError), contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.nullcontext())
        y = y + first
        y = y / 0 if x.dim() == 7 else y
        1 / 0
    return y, second, sum(steps)


class Meta(type):
    made = 0

    def __call__(cls, *args, **kwargs):
        Meta.made += 1
        return super().__call__(*args, **kwargs)


class WithMeta(nn.Module, metaclass=Meta):
    def __init__(self, scale=2.0):
        super().__init__()
        self.scale = scale

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__()
        cls.options = kwargs


@case(rand(2, 3))
class MetaclassModule(WithMeta, bias=1.5):
    def forward(self, x):
        return x * self.scale + self.options["bias"] + isinstance(type(self), Meta)


@case(rand(3, 4))
class CachedProperties(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(rand(4))

    @functools.cached_property
    def width(self):
        return self.weight.numel()

    @functools.lru_cache(maxsize=None)
    def mask(self, n):
        return torch.arange(n) % 2 == 0

    @property
    def scaled(self):
        return self.weight * 2

    @staticmethod
    def add(a, b):
        return a + b

    @classmethod
    def named(cls):
        return cls.__name__

    def forward(self, x):
        return self.add(x * self.scaled, self.width), x.where(self.mask(4), x.new_zeros(())), self.named()


@functools.singledispatch
def leaf_of(value):
    return value.sum()


@leaf_of.register
def _(value: list):
    return sum(map(leaf_of, value))


@leaf_of.register(dict)
def _(value):
    return torch.stack([leaf_of(v) for v in value.values()])


@case(rand(3), [rand(2), rand(2)], {"a": rand(2), "b": rand(1)})
def single_dispatch(self, x, many, named):
    return leaf_of(x), leaf_of(many), leaf_of(named)


@case(rand(4, 3))
def matching(self, x):
    def kind(value):
        match value:
            case {"scale": float(s), **rest} if rest:
                return x * s + len(rest)
            case [first, *others]:
                return x + first + len(others)
            case torch.Size((4, n)):
                return x * n
            case str() | None:
                return x

    return kind({"scale": 2.0, "other": 1}), kind([1, 2, 3]), kind(x.shape), kind(None)


class Slots:
    __slots__ = ("value", "scale", "__weakref__")

    def __init__(self, value, scale):
        self.value, self.scale = value, scale

    def __matmul__(self, other):
        return self.value @ other.value * self.scale

    def __rmul__(self, x):
        return x * self.value

    def __getitem__(self, index):
        return self.value[index]

    def __len__(self):
        return 2

    def __bool__(self):
        return True

    def __call__(self, x):
        return x + self.value

    def __enter__(self):
        return self.value

    def __exit__(self, *exception):
        return False


@case(rand(3, 3), rand(3, 3))
def own_operators(self, x, y):
    a, b = Slots(x, 2.0), Slots(y, 3.0)
    reference = weakref.ref(a)
    with b as value:
        z = value + 1
    return a @ b, reference()[0] if a else x, 2 * b, a(y), z, len(a), [row.sum() for row in b]


class Kind(enum.IntEnum):
    SUM = 1
    MEAN = 2


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


@case(rand(3, 4))
def enumerations(self, x):
    reduce = {Kind.SUM: torch.sum, Kind.MEAN: torch.mean}
    return [reduce[kind](x, dim=kind - 1) for kind in Kind], x * Kind.MEAN, x if Flags.A in (Flags.A | Flags.B) else x + 1


@dataclasses.dataclass(frozen=True, order=True)
class Settings:
    width: int = 3
    scales: tuple = (1.0, 2.0)
    inner: "Settings | None" = None

    def widened(self):
        return dataclasses.replace(self, width=self.width + 1)


@dataclasses.dataclass(eq=False)
class DataModule(nn.Module):
    settings: Settings
    factor: float = 2.0

    def __post_init__(self):
        super().__init__()
        self.linear = nn.Linear(self.settings.width, 2)

    def forward(self, x):
        return self.linear(x) * self.factor * sum(self.settings.scales)


@case(rand(2, 4))
class DataclassModule(DataModule):
    def __init__(self):
        super().__init__(Settings().widened())


class Box(typing.NamedTuple):
    corner: torch.Tensor
    size: float = 1.0

    @property
    def area(self):
        return self.corner * self.size**2


@case(rand(3))
def named_tuples(self, x):
    box = Box(x)._replace(size=3.0)
    corner, size = box
    pair = collections.namedtuple("Pair", "a b", defaults=(None,))(a=corner)
    return box.area, pair.a + size, pair.b is None


@case(rand(6))
def collections_of_tensors(self, x):
    ordered = collections.OrderedDict(sorted({"b": x[1:3], "a": x[:2]}.items()))
    ordered.move_to_end("a")
    groups = collections.defaultdict(list)
    for i, part in enumerate(x.split(2)):
        groups[i % 2].append(part)
    queue = collections.deque([x[0], x[1]], maxlen=2)
    queue.append(x[2])
    chain = collections.ChainMap({"a": x[3]}, ordered)
    counts = collections.Counter("abracadabra")
    namespace = types.SimpleNamespace(x=x, n=counts["a"])
    return torch.cat(list(ordered.values())), torch.stack(groups[0]), sum(queue), chain["a"] + chain["b"], namespace.x * namespace.n


@case(rand(4, 3), shapes=(BATCH,), others=by_size(lambda n: rand(n, 3), 2, 5))
def iterators(self, x):
    columns = x.unbind(1)
    pairs = [a * b for a, b in itertools.combinations(columns, 2)]
    running = list(itertools.accumulate(columns, operator.add))
    zipped = [a - b for a, b in zip(columns, reversed(columns))]
    starred, *rest = itertools.islice(itertools.cycle(columns), 5)
    return pairs, functools.reduce(torch.maximum, running), zipped, starred + len(rest), max(map(operator.itemgetter(0), [(3, x), (5, x)]))


@case(rand(3, 4))
def exceptions_and_finally(self, x):
    class Stop(Exception):
        def __init__(self, value):
            super().__init__("stop")
            self.value = value

    log = []

    def risky(y):
        try:
            if y.dim() == 2:
                raise Stop(y * 2)
            return y
        except Stop as stop:
            log.append(str(stop))
            return stop.value
        else:
            log.append("else")
        finally:
            log.append("finally")

    try:
        x.no_such_method()
    except AttributeError:
        log.append("attribute")
    try:
        [x][7]
    except IndexError:
        log.append("index")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("unused")
    return risky(x) + 1, ",".join(log)


def traced(function=None, *, scale=1.0):
    if function is None:
        return functools.partial(traced, scale=scale)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        result = function(*args, **kwargs)
        return tuple(r * scale for r in result) if isinstance(result, tuple) else result * scale

    wrapper.calls = 0
    return wrapper


@case(rand(2, 3), kwargs={"bias": rand(3)})
class DecoratedForward(nn.Module):
    @traced(scale=0.5)
    @torch.no_grad()
    def forward(self, x, /, *, bias=None, scale: "float" = 2.0):
        nonlocal_total = [0]

        def accumulate(value):
            nonlocal_total[0] += value
            return nonlocal_total[0]

        return (lambda *args, **kw: sum(args) + kw["b"])(x, accumulate(1), accumulate(2), b=bias) * scale


@case(rand(5))
def walrus_and_slices(self, x):
    picks = [y for i in range(4) if (y := x[i]).dim() == 0 and i != 2]
    first, *middle, last = x
    s = slice(None, None, 2)
    return torch.stack(picks), first + last, torch.stack(middle)[s], x[..., None, slice(1, -1)], x[[0, 2]], x[torch.tensor([True, False, True, False, True])]


@case(rand(3, 5))
def numbers_and_strings(self, x):
    name = f"{x.dim()}-{x.shape[1]:03d}-{math.pi:.2f}-{len(x)!r}"
    angle = math.radians(30)
    value = divmod(7, 3)[0] + round(2.567, 1) + int("12", 3) + ord("a") % 5 + abs(-2) + pow(2, 3, 5) + 7 // 2 + (1 << 3) + complex(1, 2).real
    return x * value + math.sin(angle), name, x.size(-1) == 5, {"k": x.new_tensor([1, 2])}, x.shape.numel() / 3, bool(x.shape[0] > 2 and not x.is_complex())


# --- Modules


@case(rand(2, 4))
class Delegating(nn.Module):
    """Attributes that it does not have are its inner module's."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.inner.gain = 3.0

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def __contains__(self, name):
        return name in dict(self.named_parameters())

    def forward(self, x):
        return F.linear(x, self.weight, self.bias) * self.gain + ("inner.bias" in self) + hasattr(self, "missing")


@case(rand(2, 4))
class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Sequential(collections.OrderedDict(first=nn.Linear(4, 4), act=nn.ReLU()))})
        self.layers.update({"c": nn.Identity()})
        self.scales = nn.ParameterDict({"x": nn.Parameter(rand(4)), "y": nn.Parameter(rand(4))})
        self.scales["z"] = nn.Parameter(rand(1))
        self.shifts = nn.ParameterList([nn.Parameter(rand(4)) for _ in range(3)])
        self.shifts.append(nn.Parameter(rand(4)))
        self.stack = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        self.stack.insert(1, nn.Tanh())
        del self.stack[3]
        self.stack[0] = nn.Identity()
        self.stack += [nn.Sigmoid()]

    def forward(self, x):
        for name, layer in self.layers.items():
            x = layer(x) + len(name)
        for key in sorted(self.scales.keys()):
            x = x * self.scales[key]
        for shift in self.shifts[1:4]:
            x = x + shift
        for layer in self.stack[:2] + self.stack[3:]:
            x = layer(x)
        return x, len(self.stack), self.layers["b"][0](x), "q" in self.scales, self.layers.b.first.bias.sum(), len(self.shifts)


@case(rand(2, 4))
class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", rand(4))
        self.register_buffer("dropped", rand(4), persistent=False)
        self.register_buffer("absent", None)
        self.direct = nn.Buffer(rand(4), persistent=False)
        self.register_parameter("missing", None)
        self.plain = rand(4)
        self.inner = nn.Module()
        self.inner.register_buffer("deep", ints(4).float())

    def forward(self, x):
        assert self.absent is None and self.missing is None
        named = ",".join(name for name, _ in self.named_buffers())
        return x * self.kept + self.dropped + self.direct - self.plain, self.get_buffer("inner.deep") + x, named, sorted(self.state_dict())


@case(rand(2, 4))
class Walks(nn.Module):
    def __init__(self):
        super().__init__()
        shared = nn.Linear(4, 4)
        self.a = nn.Sequential(shared, nn.Sequential(nn.ReLU(), shared))
        self.b = shared
        self.apply(lambda m: nn.init.constant_(m.weight, 0.25) if isinstance(m, nn.Linear) else None)
        self.frozen = copy.deepcopy(self.a).requires_grad_(False)
        self.counts = [len(list(self.named_modules())), len(list(self.named_modules(remove_duplicate=False))), len(list(self.parameters())),
                       len(list(self.named_parameters(remove_duplicate=False))), len(list(self.children())), len(list(self.modules()))]
        self.names = ",".join(n for n, _ in self.named_children()) + ";" + ",".join(n for n, _ in self.named_parameters(prefix="p", recurse=True))

    def forward(self, x):
        return self.frozen(self.a(x)) + self.b(x), self.counts, self.names, self.get_submodule("a.1.1")(x)


@case(rand(2, 4))
class StateDicts(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.other.load_state_dict({k: v + 1 for k, v in self.linear.state_dict().items()})
        self.assigned = nn.Linear(4, 4)
        self.assigned.load_state_dict({k: v.clone() * 2 for k, v in self.linear.state_dict(keep_vars=True).items()}, assign=True)
        result = self.assigned.load_state_dict({"weight": torch.ones(4, 4), "extra": torch.ones(1)}, strict=False)
        self.report = f"{result.missing_keys} {result.unexpected_keys}"
        self.renamed = nn.Linear(4, 4)
        self.renamed._register_state_dict_hook(lambda module, state, prefix, meta: {f"new_{k}": v for k, v in state.items()})
        self.renamed.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
        self.keys = sorted(self.renamed.state_dict())
        self.renamed.load_state_dict({"weight": torch.full((4, 4), 0.5)})
        try:
            self.linear.load_state_dict({"weight": torch.ones(3, 3)})
        except RuntimeError as error:
            self.error = str(error).splitlines()[0]

    def get_extra_state(self):
        return {"version": 3}

    def set_extra_state(self, state):
        self.version = state["version"]

    def forward(self, x):
        return self.linear(x), self.other(x), self.assigned(x), self.renamed.weight.sum(), self.report, self.keys, self.error


@case(rand(2, 4))
class AllHooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.log = []
        self.linear.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
        self.linear.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True, prepend=True)
        self.linear.register_forward_hook(lambda m, args, out: out + 1)
        self.linear.register_forward_hook(lambda m, args, kwargs, out: out * 3, with_kwargs=True, prepend=True)
        handle = self.linear.register_forward_hook(lambda m, args, out: out * 100)
        handle.remove()
        self.second.register_forward_hook(self.note, always_call=True)
        self.second.register_full_backward_hook(lambda m, gi, go: None)
        self.handles = [self.second.register_forward_pre_hook(functools.partial(self.shift, by=0.5))]

    def note(self, module, args, out):
        self.last_shape = tuple(out.shape)

    @staticmethod
    def shift(module, args, by):
        return args[0] - by

    def forward(self, x):
        y = self.second(self.linear(x))
        with contextlib.ExitStack() as stack:
            handle = self.linear.register_forward_hook(lambda m, a, out: out - 5)
            stack.callback(handle.remove)
            z = self.linear(x)
        return y, z, self.linear(x)


@case(rand(2, 4))
class GlobalHooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        module = torch.nn.modules.module
        handles = [module.register_module_forward_pre_hook(lambda m, args: (args[0] * 2,) if m is self.linear else None),
                   module.register_module_forward_hook(lambda m, args, out: out + 1 if m is self.linear else None)]
        try:
            y = self.linear(x)
        finally:
            for handle in handles:
                handle.remove()
        return y, self.linear(x)


@case(rand(2, 4))
class Replaced(nn.Module):
    """Methods and modules that are put in place later."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        plain = self.a.forward
        self.a.forward = lambda x: plain(x) * 2
        self.b.forward = types.MethodType(lambda module, x: F.linear(x, module.weight) - 1, self.b)
        self.c = nn.Linear(4, 4)
        del self.c.bias
        self.c.bias = None
        self.d = nn.Linear(4, 4)
        self.d.weight = self.a.weight
        self.e = nn.utils.skip_init(nn.Linear, 4, 2)
        with torch.no_grad():
            for parameter in self.e.parameters():
                parameter.fill_(0.5)
        setattr(self, "layer 7", nn.ReLU())

    def forward(self, x):
        return self.a(x), self.b(x), self.c(x), self.d(x), self.e(x), getattr(self, "layer 7")(x)

    def extra_repr(self):
        return "replaced"


class Abstract(nn.Module, abc.ABC):
    @abc.abstractmethod
    def transform(self, x):
        ...

    def forward(self, *inputs, **options):
        return [self.transform(x, **options) for x in inputs]


class Mixin:
    def transform(self, x, power=1):
        return super().transform(x) ** power


class Base(Abstract):
    def transform(self, x):
        return x + 1


@case(rand(2), rand(3), kwargs={"power": 2})
class MultipleInheritance(Mixin, Base):
    pass


@case(rand(2, 4))
class ModesAndFlags(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(4)
        self.norm.running_mean.copy_(rand(4))

    @torch.inference_mode()
    def quiet(self, x):
        return self.norm(self.dropout(x))

    @torch.enable_grad()
    def loud(self, x):
        return x * torch.is_grad_enabled()

    def forward(self, x):
        flags = [torch.jit.is_scripting(), torch.jit.is_tracing(), torch.compiler.is_compiling(), torch.compiler.is_exporting(), self.training,
                 torch.is_grad_enabled(), torch.is_tensor(x), x.requires_grad, x.is_cuda, x.is_leaf]
        with torch.set_grad_enabled(False):
            flags.append(torch.is_grad_enabled())
        with torch.random.fork_rng():
            pass
        return self.quiet(x), self.loud(x), flags[4:5] + flags[6:9]


@torch.jit.script_if_tracing
def helper(x):
    return x + 1


@torch.jit.ignore
def ignored(x):
    return x * 2


@torch.compiler.disable
def disabled(x):
    return x - 3


@torch.jit.unused
def unused(x):
    return x


@case(rand(2, 4))
class ScriptDecorators(nn.Module):
    scale: torch.jit.Final[float] = 2.0

    @torch.jit.export
    def extra(self, x):
        return x

    def forward(self, x: torch.Tensor) -> typing.Tuple[torch.Tensor, typing.Optional[torch.Tensor]]:
        y = torch.jit.annotate(typing.List[torch.Tensor], [])
        y.append(helper(x))
        torch._assert(x.dim() == 2, "two dimensions")
        if not torch.jit.is_scripting():
            y.append(ignored(x))
        return torch.cat(y) * self.scale, disabled(unused(x))


@torch.jit.script
def scripted(x):
    return x * 2 if torch.jit.is_scripting() else x


class AsksWhetherScripted(nn.Module):
    def forward(self, x):
        return x + 1 if torch.jit.is_scripting() else x


@case(rand(2, 4))
class ScriptedCode(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(nn.Sequential(AsksWhetherScripted()))

    def forward(self, x):
        return scripted(x), self.inner(x), x * 3 if torch.jit.is_scripting() else x


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(x)
        ctx.low = low
        ctx.mark_non_differentiable(mask := x > low)
        ctx.set_materialize_grads(False)
        return x.clamp(low, high), mask

    @staticmethod
    def backward(ctx, grad, _):
        return grad, None, None


class Double(torch.autograd.Function):
    @staticmethod
    def forward(x, scale=2):
        return x * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1] if len(inputs) > 1 else 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale, None


@case(rand(2, 4))
def autograd_functions(self, x):
    y, mask = Clip.apply(x, -0.5, 0.5)
    return y, mask, Double.apply(x), Double.apply(x, 5), torch.utils.checkpoint.checkpoint(lambda z: z.sin(), x, use_reentrant=False)


class Wrapped:
    """Something like a tensor, by its own __torch_function__."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        unwrap = lambda v: v.value if isinstance(v, Wrapped) else [unwrap(x) for x in v] if isinstance(v, (list, tuple)) else v
        result = function(*map(unwrap, args), **{k: unwrap(v) for k, v in (kwargs or {}).items()})
        return cls(result) if isinstance(result, torch.Tensor) else result


@case(rand(3, 4))
def torch_functions(self, x):
    w = Wrapped(x)
    return torch.add(w, 1).value, torch.cat([w, x]).value, torch.sum(x, dim=0).sum(), F.relu(w).value, torch.mul(x, w).value


def rearrange(x, pattern, **sizes):
    """A small einops: names in round brackets are one dimension."""
    left, right = ([token for token in side.replace("(", " ( ").replace(")", " ) ").split()] for side in pattern.split("->"))

    def groups(tokens):
        found, open_group = [], None
        for token in tokens:
            if token == "(":
                open_group = []
            elif token == ")":
                found.append(open_group)
                open_group = None
            else:
                (found.append([token]) if open_group is None else open_group.append(token))
        return found

    shape = []
    for names, size in zip(groups(left), x.shape):
        known = math.prod(sizes[n] for n in names if n in sizes)
        shape += [sizes.get(n, size // known) for n in names]
    order = [n for names in groups(left) for n in names]
    sizes = dict(zip(order, shape))
    x = x.reshape(shape).permute([order.index(n) for names in groups(right) for n in names])
    return x.reshape([math.prod(sizes[n] for n in names) for names in groups(right)])


@case(rand(2, 6, 4, 4), shapes=({0: torch.export.Dim("batch", max=64)},), others=by_size(lambda n: rand(n, 6, 4, 4), 1, 5))
def einops_like(self, x):
    return rearrange(x, "b (h c) x y -> b h (x y) c", h=2), rearrange(x, "b c (x p) (y q) -> b (x y) (p q c)", p=2, q=2), rearrange(x, "b c x y -> (b x y) c")


@case(rand(2, 4))
class LazyAndChained(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.LazyLinear(3), nn.LeakyReLU(0.1, inplace=True), nn.Linear(3, 2))
        self.net(torch.zeros(1, 4))
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.copy_(rand(*parameter.shape))
        self.net.append(nn.Softmax(dim=-1)).to(torch.float32).eval().float().cpu()
        self.doubled = nn.Linear(4, 2).to(dtype=torch.float64)
        self.doubled.zero_grad(set_to_none=True)

    def forward(self, x):
        return self.net(x), self.doubled(x.double()).float(), self.net[1:](x[:, :3]), sum(p.numel() for p in self.parameters())


@case(rand(3, 4))
class RegisteredFunctions(nn.Module):
    registry = {}

    @classmethod
    def register(cls, name):
        def add(function):
            cls.registry[name] = function
            return function

        return add

    def forward(self, x):
        for name in sorted(self.registry):
            x = self.registry[name](self, x)
        return x


@RegisteredFunctions.register("b")
def _(self, x):
    return x.abs()


@RegisteredFunctions.register("a")
def _(self, x):
    return -x + 1


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name) * 2

    def __set__(self, instance, value):
        object.__setattr__(instance, self.name, value)


@case(rand(3, 4))
class Descriptors(nn.Module):
    scale = Descriptor()

    def __init__(self):
        super().__init__()
        self.scale = 3.0

    def __setattr__(self, name, value):
        if name == "flag":
            value = not value
        super().__setattr__(name, value)

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)

    def forward(self, x):
        return x * self.scale, type(self).scale.name


@case(rand(3, 4))
def recursion_and_trees(self, x):
    def tree(value, depth):
        return value if depth == 0 else {"left": tree(value + 1, depth - 1), "right": [tree(value * 2, depth - 1)]}

    def leaves(node):
        if isinstance(node, torch.Tensor):
            yield node
        else:
            for child in node.values() if isinstance(node, dict) else node:
                yield from leaves(child)

    return sum(leaves(tree(x, 3))), tree(x, 1), torch.utils._pytree.tree_map(torch.neg, {"a": (x, [x + 1])})


@case(rand(4, 3))
def tensor_protocols(self, x):
    y = x + torch.ones(3)
    rows = [row for row in x]
    a, b, c, d = x
    return y, rows[1] + a, len(x), x.T @ x, -x, +x, abs(x), x**2, 2**x, 1 - x, x % 0.5, ~(x > 0), (x > 0) & (x < 0.5) | (x < -0.5) ^ (
        x > 2), x @ x.mT, divmod(5, 2)[1] * d, round(2.5), isinstance(x, torch.Tensor), x.dtype.is_floating_point


@case(rand(3, 4))
def other_names(self, x):
    y, z = x.clone(), x.abs() + 1
    y.arctan_().negative_()
    z.xlogy_(x.abs()).greater_(0)
    facts = torch.is_signed(x), torch.is_same_size(x, y), torch.is_inference(x), x.is_same_size(x[0])
    return (torch.arcsin(x), x.arccos(), torch.arctan(x), torch.arcsinh(x), torch.arccosh(x.abs() + 1), torch.arctanh(x), torch.negative(x),
            torch.row_stack((x, x[0])), x.less_equal(0), y, z, x.clone().less_(0.5), facts)


@case(rand(2, 3))
def python_types_as_dtypes(self, x):
    seen = torch.ones(3, dtype=bool).logical_and(torch.tensor([1, 0, 2], dtype=bool))
    return x.to(float), x.to(dtype=int), seen, torch.zeros(2, dtype=float), x.new_zeros(3, dtype=int), (x > 0).sum(dtype=float)


class Named(torch.Tensor):
    pass


@case(rand(2, 3))
def as_another_class(self, x):
    named = torch.ones(3).as_subclass(Named)
    return (named + 1).as_subclass(torch.Tensor) + x, x if isinstance(named, Named) else -x
