# Recurrent layers and cells. A layer is one operator (lstm, gru, rnn_tanh), whatever its number of steps.
import math
import warnings

import torch
from torch._operators import aten
from torch._placeholder import Unsupported
from torch.nn import init
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter
from torch.nn.utils.rnn import PackedSequence, is_inside

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_gates = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
                     "proj_size"]

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        if not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                          f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}", stacklevel=2)
        if min(input_size, hidden_size, num_layers) <= 0:
            raise ValueError("input_size, hidden_size and num_layers must be greater than zero")
        if not 0 <= proj_size < hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in _gates:
            raise ValueError("Unrecognized RNN mode: " + mode)
        rows = _gates[mode] * hidden_size
        output_size = proj_size or hidden_size
        self._flat_weights_names = []
        self._all_weights = []
        for layer in range(num_layers):
            columns = input_size if layer == 0 else output_size * (2 if bidirectional else 1)
            for suffix in ("", "_reverse") if bidirectional else ("",):
                sizes = {"weight_ih": (rows, columns), "weight_hh": (rows, output_size)}
                if bias:
                    sizes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size > 0:
                    sizes["weight_hr"] = (proj_size, hidden_size)
                names = [f"{name}_l{layer}{suffix}" for name in sizes]
                for name, size in zip(names, sizes.values()):
                    setattr(self, name, Parameter(torch.empty(size, device=device, dtype=dtype)))
                self._flat_weights_names.extend(names)
                self._all_weights.append(names)
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def _flat_weights(self):
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self):
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Something for other devices; here weights are packed by `atenon lower`."""

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
                            ("bidirectional", False)):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def check_input(self, input, batch_sizes):
        rank = 2 if batch_sizes is not None else 3
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else self._map(hx, lambda h: _apply_permutation(h, permutation))

    def _zeros(self, width, batch, input):
        directions = 2 if self.bidirectional else 1
        return torch.zeros(self.num_layers * directions, batch, width, dtype=input.dtype)

    def _run(self, operator, input, hx):
        """Brings any of the accepted forms of input to the operator's, and the results back."""
        if isinstance(input, PackedSequence):
            return self._run_packed(operator, input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
            hx = None if hx is None else self._map(hx, lambda h: h.unsqueeze(1))
        self.check_input(input, None)
        if hx is None:
            hx = self._initial_hidden(input.size(batch_dim), input)
        results = operator(input, hx, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
                           self.bidirectional, self.batch_first)
        output, hidden = results[0], self._hidden_of(results)
        if not batched:
            return output.squeeze(batch_dim), self._map(hidden, lambda h: h.squeeze(1))
        return output, hidden

    def _run_packed(self, operator, packed, hx):
        """The padded batch, each layer and direction by itself: backwards, each sequence is turned within its own length, so that all
        begin at once; the last state is where each one ends."""
        if self.training and self.dropout and self.num_layers > 1:
            raise Unsupported("dropout between the layers of a packed sequence is not supported in training")
        x, lengths = packed.padded, packed.lengths
        self.check_input(x, None)
        hx = self._initial_hidden(x.size(1), x) if hx is None else hx
        inside = is_inside(x.size(0), lengths)
        steps = torch.arange(x.size(0)).unsqueeze(1)
        backwards = torch.where(inside, lengths - 1 - steps, steps).unsqueeze(-1)
        x = torch.where(inside.unsqueeze(-1), x, torch.zeros((), dtype=x.dtype))
        last = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(2 if self.bidirectional else 1):
                weights = [getattr(self, name) for name in self._all_weights[len(last)]]
                start = self._map(hx, lambda h: h[len(last):len(last) + 1])
                y = x.take_along_dim(backwards, 0) if direction else x
                results = self._one_layer(operator, y, ~inside.unsqueeze(-1), start, weights)
                y = results[0]
                ends = y.take_along_dim((lengths - 1).view(1, -1, 1), 0)
                last.append((ends, *results[2:]))
                outputs.append(y.take_along_dim(backwards, 0) if direction else y)
            x = torch.cat(outputs, -1)
        hidden = tuple(torch.cat(states) for states in zip(*last))
        return PackedSequence.of_padded(x, packed.rows), self._hidden_of((x, *hidden))

    def _one_layer(self, operator, x, is_padding, hx, weights):
        return operator(x, hx, weights, self.bias, 1, 0.0, False, False, False)

    def _initial_hidden(self, batch, input):
        return self._zeros(self.hidden_size, batch, input)

    @staticmethod
    def _hidden_of(results):
        return results[1]

    @staticmethod
    def _map(hidden, function):
        return function(hidden)


class RNN(RNNBase):
    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        return self._run(aten.rnn_tanh if self.nonlinearity == "tanh" else aten.rnn_relu, input, hx)


class LSTM(RNNBase):
    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 proj_size=0, device=None, dtype=None):
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
                         device, dtype)

    def _initial_hidden(self, batch, input):
        return (self._zeros(self.proj_size or self.hidden_size, batch, input), self._zeros(self.hidden_size, batch, input))

    @staticmethod
    def _hidden_of(results):
        return results[1], results[2]

    def _one_layer(self, operator, x, is_padding, hx, weights):
        """A sequence that has ended keeps its cell: padding, as one more feature, drives its gates so far that nothing is forgotten
        and nothing taken in."""
        far = torch.cat([torch.full((self.hidden_size,), push) for push in (-1e4, 1e4, 0.0, 0.0)]).to(x.dtype)
        weights = [torch.cat([weights[0], far.unsqueeze(1)], 1), *weights[1:]]
        return super()._one_layer(operator, torch.cat([x, is_padding.to(x.dtype)], -1), is_padding, hx, weights)

    @staticmethod
    def _map(hidden, function):
        return tuple(map(function, hidden))

    def forward(self, input, hx=None):
        return self._run(aten.lstm, input, hx)


class GRU(RNNBase):
    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 device=None, dtype=None):
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)

    def forward(self, input, hx=None):
        return self._run(aten.gru, input, hx)


class RNNCellBase(Module):
    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(torch.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(torch.empty((rows, hidden_size), device=device, dtype=dtype))
        if bias:
            self.bias_ih = Parameter(torch.empty(rows, device=device, dtype=dtype))
            self.bias_hh = Parameter(torch.empty(rows, device=device, dtype=dtype))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _run(self, operator, input, hx, states):
        if input.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype)
            hx = [zeros] * states
        elif not batched:
            hx = [h.unsqueeze(0) for h in hx]
        results = operator(input, list(hx) if states > 1 else hx[0], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        results = results if states > 1 else (results,)
        results = tuple(results) if batched else tuple(r.squeeze(0) for r in results)
        return results if states > 1 else results[0]


class RNNCell(RNNCellBase):
    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        operator = aten.rnn_tanh_cell if self.nonlinearity == "tanh" else aten.rnn_relu_cell
        return self._run(operator, input, None if hx is None else [hx], 1)


class LSTMCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        return self._run(aten.lstm_cell, input, hx, 2)


class GRUCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._run(aten.gru_cell, input, None if hx is None else [hx], 1)
