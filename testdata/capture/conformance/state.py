# State of all kinds: buffers assigned and updated, shared and made modules, constants, aliases of inputs.
import copy
import types

import torch
import torch.nn.functional as F

from cases import by_size, case, rand
from torch import nn
from torch.export import Dim

batch = Dim("batch", max=64)
rows = by_size(lambda n: rand(n, 4), 2, 5)


@case(rand(1, 3))
class ParameterInDict(nn.Module):
    def __init__(self):
        super().__init__()
        self.params = {"foo": nn.Parameter(torch.ones(3, 3))}

    def forward(self, x):
        return x + self.params["foo"]


@case(rand(3, 3))
class NameWithColon(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter("foo:bar", nn.Parameter(torch.ones(3, 3)))

    def forward(self, x):
        return x + getattr(self, "foo:bar")


@case(rand(2, 3))
class AssignedBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", torch.ones(2, 3), persistent=False)

    def forward(self, x):
        y = self.buf
        w1, w2, w3 = self.buf + 3, self.buf + 4, self.buf + 5
        self.buf = w1
        z = self.buf
        self.buf = w3
        return x + y + z + w2


@case(rand(2, 3))
class TwoAssignedBuffers(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(2):
            self.register_buffer(f"buf_{i}", torch.ones(2, 3), persistent=False)

    def forward(self, x):
        y = getattr(self, "buf_0") + getattr(self, "buf_1")
        setattr(self, "buf_0", torch.ones(2, 3) + 2)
        setattr(self, "buf_1", torch.ones(2, 3) + 2)
        return x + y + self.buf_0 + self.buf_1


@case(rand(2, 3))
class PythonState(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.y, self.z = 1, {"k": 2}, (3,)

    def forward(self, x):
        self.x = self.x + 4
        self.y["k"] = self.y["k"] + 5
        self.z = (self.z[0] + 6,)
        return x + self.x + self.y["k"] + self.z[0]


@case(rand(20, 10))
class ShapeAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 10)
        self.last = self.linear.weight.shape

    def forward(self, x):
        self.last = x.shape
        return self.linear(x)


@case(rand(4, 4))
class InputAndBufferUpdated(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("foo", torch.ones(4, 4))

    def forward(self, x):
        self.foo.add_(1)
        x.add_(1)
        return self.foo + x


@case(rand(5, 5))
class BufferUpdatedByParent(nn.Module):
    class Bar(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("buf", torch.ones(1))

        def forward(self, x):
            self.buf.add_(1)
            return x.sum() + self.buf.sum()

    def __init__(self):
        super().__init__()
        self.register_buffer("buf", torch.zeros(1))
        self.bar = self.Bar()

    def forward(self, x):
        self.buf.add_(1)
        bar = self.bar(x)
        self.bar.buf.add_(2)
        return bar.sum() + self.buf.sum()


@case(rand(2, 3))
class ChildCalledThreeTimes(nn.Module):
    class Child(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("buf", torch.tensor(10))

        def forward(self, x):
            self.buf.add_(1)
            return x + 2

    def __init__(self):
        super().__init__()
        self.child = self.Child()

    def forward(self, x):
        for _ in range(3):
            x = self.child(x) + self.child.buf
        return x


@case(rand(4))
class SharedChildWithBuffer(nn.Module):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("buf", torch.arange(4.0), persistent=False)

        def forward(self, x):
            return x + self.buf

    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    def __init__(self):
        super().__init__()
        inner = self.Inner()
        self.a, self.b = self.Outer(inner), self.Outer(inner)

    def forward(self, x):
        return self.a(x) + self.b(x)


@case()
class NoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.ones(4, 4)
        self.register_buffer("buf", torch.ones(4, 4))

    def forward(self):
        return (self.a.sin() + self.a + self.buf, torch.tensor([1, 2, 3]))


@case(rand(3, 2), rand(3, 2))
class ConstantReturned(nn.Module):
    def __init__(self):
        super().__init__()
        self.bff = torch.arange(6.0).view(3, 2)

    def forward(self, x, y):
        return {"prediction": (x + y, self.bff)}


@case(rand(3, 3))
class ModuleMadeInForward(nn.Module):
    class Made(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = torch.ones(3, 3)

        def forward(self, x):
            return x + self.b

    def forward(self, x):
        return self.Made()(x) * x


@case(rand(3, 3))
class MadeWithConstant(nn.Module):
    class Made(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = torch.tensor(5)

        def forward(self, x):
            return x + self.b

    def forward(self, x):
        return self.Made()(x) * x


@case(rand(3, 3))
class MadeWithParameter(nn.Module):
    class Made(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(3, 3)), nn.Parameter(torch.tensor(5.0))

        def forward(self, x):
            return x + self.a * self.b

    def forward(self, x):
        return self.Made()(x) * x


@case(rand(1, 10))
class ConstantOfOtherType(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = torch.tensor([1.0])

    def forward(self, x):
        return x + self.t.to(torch.float64)


@case(torch.tensor(1))
def to_the_same_device(self, x):
    y = x.to("cpu")
    y.add_(1)
    return y, x


@case(rand(3))
def to_another_type(self, x):
    y = x.to(torch.float64)
    y.add_(1)
    z = x.to(torch.float32)
    z.mul_(2)
    return y, z


@case(rand(4, 4))
class SequentialSliced(nn.Module):
    def __init__(self):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
        self.last = self.seq[1:]

    def forward(self, x):
        return self.seq[1:](x) + self.last(x)


@case(rand(2, 1))
class ListTruncated(nn.Module):
    def __init__(self):
        super().__init__()
        self.fcs = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])

    def forward(self, x):
        for fc in self.fcs[:1]:
            x = fc(x)
        return x


@case(rand(64, 8))
class ForwardReplaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleDict({str(i): nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)) for i in range(3)})
        block = self.blocks["1"]
        block.original = block.forward
        block.forward = types.MethodType(lambda self, *args: self.original(*args) * 2, block)

    def forward(self, x):
        for name, block in self.blocks.items():
            x = block(x)
        return x


@case(rand(3))
class ChildTakesFunction(nn.Module):
    class Dummy(nn.Module):
        def forward(self, f, x):
            return f(x + 2) + 4

    class N(nn.Module):
        def forward(self, x):
            return x + 3

    def __init__(self):
        super().__init__()
        self.dummy, self.n = self.Dummy(), self.N()

    def forward(self, x):
        y = x + 1
        return self.dummy(lambda k: self.n(y + k) + y, y) + 5


@case(rand(3, 10))
class ChildUpdatesItsInput(nn.Module):
    class Child(nn.Module):
        def forward(self, x):
            x.mul_(0.5)
            return x - 2

    def __init__(self):
        super().__init__()
        self.child = self.Child()

    def forward(self, x):
        y = self.child(x)
        return y + x * 4


@case([rand(4, 4), rand(4, 4)])
class UpdatesInContainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buffer", torch.ones(4, 4))

    def forward(self, container):
        a, b = container
        a.add_(5)
        b.add_(5)
        return a + b + self.buffer.sum()


@case(rand(4, 4))
class GlobalHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.lin.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
        self.lin.register_forward_hook(lambda m, args, out: out * 2)

    def forward(self, x):
        return self.lin(x)


@case(rand(4, 10), rand(4, 10))
class BufferUpdatedWithoutGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(10))

    def forward(self, x, y):
        with torch.no_grad():
            self.running.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.running[0] = 1
            self.running[1:3].copy_(y[0, 1:3])
        return x - self.running


@case(rand(10), shapes={"x": {0: Dim("n", min=1, max=10)}}, others=[(rand(1),), (rand(9),)])
class SliceOfBufferWritten(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", torch.zeros(10))

    def forward(self, x):
        self.buf[0 : x.shape[0]] = x
        return x + 2


@case(torch.tensor(2), rand(2, 4), others=[(torch.tensor(5), rand(2, 4))])
class CacheWrittenAtPosition(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 8, 4))

    def forward(self, position, x):
        self.cache.index_copy_(1, position.view(1), x[:, None])
        self.cache[:, position] += 1
        return self.cache.sum(1)


@case(rand(2, 3, 4, 4))
class BatchNormTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm2d(3)

    def forward(self, x):
        self.bn.train()
        return self.bn(x)


@case(rand(4), rand(4))
def alias_of_input_updated(self, x, y):
    v = x.view(2, 2)
    w = x[1:3]
    v.add_(1)
    w.mul_(2)
    return v, w + y[:2], x


@case(rand(4))
def output_is_input(self, x):
    return x, x.view(2, 2), x[1:]


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def updates_of_views_of_copies(self, x):
    y = x.expand(2, *x.shape).clone()
    y[0].add_(1)
    y.transpose(0, 1)[..., ::2].zero_()
    a, b = y.unbind(0)
    a.sub_(b)
    return y


@case(rand(4, 4))
class DeepCopied(nn.Module):
    def __init__(self):
        super().__init__()
        a = nn.Linear(4, 4)
        self.a, self.b = a, copy.deepcopy(a)
        self.c = nn.ParameterDict({"left": nn.Parameter(torch.ones(4)), "right": nn.Parameter(torch.zeros(4))})

    def forward(self, x):
        return self.a(x) + self.b(x) * self.c["left"] + self.c["right"]


@case(rand(4, 4))
class TiedTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 4, bias=False)
        self.out = nn.Linear(4, 4, bias=False)
        self.out.weight = self.embed.weight
        self.view = self.embed.weight.detach()[:2]

    def forward(self, x):
        return self.out(self.embed(x)) + self.view.sum()


# --- Made before forward


@case(rand(3, 4))
class LoadsItsOwnState(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.zeros = nn.Parameter(torch.zeros(4))
        state = {name: value + 1 if value.is_floating_point() else value for name, value in self.layers.state_dict().items()}
        self.layers.load_state_dict(state)
        self.layers.load_state_dict(self.layers.state_dict())
        with torch.no_grad():
            self.zeros.copy_(self.zeros)

    def forward(self, x):
        return self.layers(x) + self.zeros + self.layers[1].num_batches_tracked


class TurnedDraws(nn.Module):
    def __init__(self):
        super().__init__()
        ones = torch.ones(6, 5)
        image = torch.ones(2, 4, 3, 3).to(memory_format=torch.channels_last)
        self.drawn = [
            F.dropout(ones.t(), 0.3), F.dropout(ones.t().clone(), 0.3, inplace=True), F.alpha_dropout(ones.t(), 0.4, training=True),
            F.dropout2d(image, inplace=True), F.dropout(image, 0.5), torch.rand_like(image), torch.randn_like(image),
            torch.bernoulli(ones.t(), 0.5), torch.bernoulli(ones.t() / 2), torch.empty(4, 3).t().bernoulli_(0.5),
            F.gumbel_softmax(ones.t())]


@case(rand(2))
class DrawnBefore(TurnedDraws):
    def forward(self, x):
        return x, self.drawn


@case(rand(3, 4))
class Pruned(nn.Module):
    def __init__(self):
        from torch.nn.utils import prune

        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(4, 4)
        with torch.no_grad():  # else describe.py cannot copy the model
            prune.l1_unstructured(self.a, name="weight", amount=0.3)
            prune.ln_structured(self.b, "weight", amount=0.5, n=2, dim=1)
            prune.random_unstructured(self.c, "weight", amount=5)
            prune.remove(self.c, "weight")
            prune.custom_from_mask(self.c, "bias", torch.tensor([1, 0, 1, 1]))
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.c(self.b(self.a(x))))


@case(rand(3, 4))
class DrawnOneByOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("tries", torch.empty(3, 4).geometric_(0.3))
        self.register_buffer("counts", torch.empty(4, dtype=torch.int64).geometric_(0.2))
        self.weight = nn.Parameter(torch.empty(4).cauchy_(1.0, 0.5))
        self.after = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return x * self.weight + self.tries, self.counts, self.after


@case(rand(3, 4))
class AveragedAndMarked(nn.Module):
    def __init__(self):
        from torch.ao.nn.quantized import FloatFunctional
        from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
        from torch.quantization import DeQuantStub, QuantStub, QuantWrapper

        super().__init__()
        trained = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.equal, self.decaying = AveragedModel(trained), AveragedModel(trained, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        for step in range(3):
            with torch.no_grad():
                for parameter in trained.parameters():
                    parameter.add_(step)
                trained[1].running_mean.add_(1)
            self.equal.update_parameters(trained)
            self.decaying.update_parameters(trained)
        self.quant, self.wrapped, self.dequant = QuantStub(), QuantWrapper(nn.Linear(4, 4)), DeQuantStub()
        self.functional = FloatFunctional()
        self.eval()

    def forward(self, x):
        x = self.quant(x)
        return self.dequant(self.functional.add(self.equal(x), self.functional.mul(self.decaying(x), self.wrapped(x))))


@case(rand(3, 4))
class MadeOnMeta(nn.Module):
    def __init__(self):
        super().__init__()
        with torch.device("meta"):
            self.layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
            nn.init.orthogonal_(self.layers[0].weight)
        self.layers.to_empty(device="cpu")
        for layer in self.layers:
            layer.reset_parameters()
        self.dropped = [nn.Linear(4, 4, device="meta"), torch.randn(3, device=torch.device("meta"))]
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.layers(x))


@case(rand(3))
class PartsOfComplexState(nn.Module):
    def __init__(self):
        super().__init__()
        table = torch.zeros(2, 3, dtype=torch.cfloat)
        table.real[:] = 1.0
        table.imag += 2
        torch.view_as_real(table)[1, :, 1] = 4
        pairs = torch.ones(3, 2)
        torch.view_as_complex(pairs).mul_(1j)
        self.register_buffer("cosine", table.real)
        self.register_buffer("table", table)
        self.register_buffer("pairs", pairs)

    def forward(self, x):
        both = torch.complex(x, x)
        both.imag += 1
        both.real = x * 2
        return x * self.cosine, torch.view_as_real(self.table), self.pairs, torch.view_as_real(both)
