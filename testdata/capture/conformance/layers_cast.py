# Recurrent layers under autocast, and orthogonal and other parametrisations.
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from cases import by_size, case, rand

TIME = {0: torch.export.Dim("time", min=2, max=64)}


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *hx):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output, hidden = self.layer(x, *hx)
            with torch.autocast("cpu", enabled=False):
                plain, _ = self.layer(x, *hx)
        kinds = f"{output.dtype} {hidden[0].dtype}"
        return output.bfloat16(), torch.utils._pytree.tree_map(torch.Tensor.bfloat16, hidden), plain, kinds


@case(rand(5, 2, 4))
class AutocastLstm(Recurrent):
    def __init__(self):
        super().__init__(nn.LSTM(4, 3))


@case(rand(2, 5, 4), (rand(4, 2, 3), rand(4, 2, 3)))
class AutocastLstmLayers(Recurrent):
    def __init__(self):
        super().__init__(nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True))


@case(rand(5, 2, 4), shapes=(TIME,), others=by_size(lambda n: rand(n, 2, 4), 2, 9))
class AutocastGru(Recurrent):
    def __init__(self):
        super().__init__(nn.GRU(4, 3))

    def forward(self, x):
        return super().forward(x)


@case(rand(2, 5, 4), rand(4, 2, 3))
class AutocastGruLayers(Recurrent):
    def __init__(self):
        super().__init__(nn.GRU(4, 3, 2, bias=False, batch_first=True, bidirectional=True))


@case(rand(5, 2, 4), rand(1, 2, 3))
class AutocastRnn(Recurrent):
    def __init__(self):
        super().__init__(nn.RNN(4, 3))


@case(rand(5, 4))
class AutocastRnnRelu(Recurrent):
    def __init__(self):
        super().__init__(nn.RNN(4, 3, nonlinearity="relu", num_layers=2))


@case(rand(5, 2, 4))
class RecurrentDtypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.LSTM(4, 3, 2, bidirectional=True).double(), nn.RNN(4, 3).double(),
                                     nn.LSTM(4, 3, proj_size=2).bfloat16(), nn.GRU(4, 3).bfloat16()])

    def forward(self, x):
        return [layer(x.to(layer.weight_ih_l0.dtype)) for layer in self.layers]


@case(rand(2, 4), rand(2, 3))
class AutocastCells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(4, 3), nn.GRUCell(4, 3), nn.RNNCell(4, 3)

    @torch.autocast("cpu", torch.bfloat16)
    def forward(self, x, h):
        results = [*self.lstm(x), *self.lstm(x, (h, h)), self.gru(x, h), self.gru(x), self.rnn(x, h), self.rnn(x)]
        return [r.bfloat16() for r in results], " ".join(str(r.dtype) for r in results)


@case(rand(3, 4))
class AutocastForms(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @torch.amp.autocast("cpu")
    def called(self, x):
        return self.linear(x)

    @torch.autocast("cpu", enabled=False)
    def off(self, x):
        return self.linear(x.float())

    def forward(self, x):
        switch = torch.autocast(device_type="cpu", dtype=torch.bfloat16, cache_enabled=False)
        with switch:
            a = self.off(x)
            b = torch.relu(self.linear(x))
            with torch.autocast("cpu", dtype=torch.float16):
                c = str(self.linear(x).dtype)
            d = str(self.linear(x).dtype)
        with torch.autocast("cuda"):
            e = self.linear(x)
        wrapped = torch.autocast("cpu")(lambda y: self.linear(y))
        return a, b, e, self.called(x), wrapped(x), str(a.dtype), c, d, torch.is_autocast_enabled("cpu")


# --- Parametrisations


def orthogonal_error(weight):
    """How far a matrix is from having orthonormal columns, or rows."""
    q = weight if weight.shape[-2] >= weight.shape[-1] else weight.mT
    return (q.mT @ q - torch.eye(q.shape[-1])).abs().max() < 1e-4


@case(rand(3, 4))
class OrthogonalSquare(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = parametrizations.orthogonal(nn.Linear(4, 4))
        with torch.no_grad():
            self.linear.parametrizations.weight.original.copy_(rand(4, 4))

    def forward(self, x):
        return self.linear(x), orthogonal_error(self.linear.weight)


@case(rand(3, 4))
class OrthogonalCayley(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley")
        with torch.no_grad():
            self.linear.parametrizations.weight[0].base.copy_(torch.eye(4))
            self.linear.parametrizations.weight.original.copy_(rand(4, 4))

    def forward(self, x):
        return self.linear(x)


@case(rand(3, 2), rand(3, 5))
class OrthogonalHouseholder(nn.Module):
    """The full matrix that completes a tall one is drawn; what the parametrisation makes of the given one is not."""

    def __init__(self):
        super().__init__()
        self.tall = parametrizations.orthogonal(nn.Linear(2, 4), use_trivialization=False)
        self.wide = parametrizations.orthogonal(nn.Linear(5, 3), use_trivialization=False)
        self.drawn = parametrizations.orthogonal(nn.Linear(2, 4))

    def forward(self, x, y):
        return self.tall(x), self.wide(y), orthogonal_error(self.tall.weight), orthogonal_error(self.wide.weight), orthogonal_error(self.drawn.weight)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


class Halved(nn.Module):
    def forward(self, x):
        return x / 2


class RankOne(nn.Module):
    def forward(self, x, y):
        return x.unsqueeze(-1) @ y.unsqueeze(-2)

    def right_inverse(self, z):
        return z[:, 0], z[0]


@case(rand(3, 4))
class ParametrizedTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.copy = nn.Linear(4, 4), nn.Linear(4, 4)
        for linear in (self.linear, self.copy):
            parametrize.register_parametrization(linear, "weight", Symmetric())
            parametrize.register_parametrization(linear, "weight", Halved())
            parametrize.register_parametrization(linear, "bias", Halved())
        self.deep = copy.deepcopy(self.linear)
        parametrize.remove_parametrizations(self.copy, "bias")
        parametrize.remove_parametrizations(self.copy, "weight", leave_parametrized=False)
        self.one = nn.Linear(4, 4, bias=False)
        parametrize.register_parametrization(self.one, "weight", RankOne())

    def forward(self, x):
        with parametrize.cached():
            y = self.linear(x) + self.linear(x * 2)
        return y, self.copy(x), self.deep(x), self.one(x), parametrize.is_parametrized(self.copy), type(self.linear).__name__, type(self.copy).__name__


@case(rand(3, 4))
class ParametrizedAssigned(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        parametrize.register_parametrization(self.linear, "weight", Symmetric())
        self.linear.weight = torch.arange(16.0).reshape(4, 4) / 16
        self.register_buffer("scale", torch.ones(4))
        parametrize.register_parametrization(self, "scale", Halved())
        self.errors = []
        for attempt in (lambda: parametrize.register_parametrization(self.linear, "other", Symmetric()),
                        lambda: parametrize.register_parametrization(nn.Linear(2, 3), "weight", nn.Flatten(0)),
                        lambda: parametrize.remove_parametrizations(self.linear, "bias")):
            try:
                attempt()
            except ValueError as error:
                self.errors.append(type(error).__name__)

    def forward(self, x):
        return self.linear(x) * self.scale, ",".join(self.errors)


@case(rand(2, 3, 6))
class ParametrizedNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = parametrizations.weight_norm(nn.Conv1d(3, 4, 3), dim=None)
        self.spectral = parametrizations.spectral_norm(nn.Conv1d(4, 2, 1), n_power_iterations=2)
        with torch.no_grad():
            for name, vector in (("_u", rand(2)), ("_v", rand(4))):
                getattr(self.spectral.parametrizations.weight[0], name).copy_(F.normalize(vector, dim=0))

    def forward(self, x):
        return self.spectral(self.weight(x))
