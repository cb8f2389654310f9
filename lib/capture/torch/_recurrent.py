# Recurrent layers and cells written out, as they compute under autocast: products in the lower type, the rest in the types that this
# gives. Layers run over time in a scan, so that the length may be dynamic.
import torch
from torch._higher_order_ops import scan
from torch._operators import aten
from torch.nn import functional as F


def _gru(gates, hidden, linear, weight, bias):
    i_reset, i_input, i_new = gates.chunk(3, -1)
    h_reset, h_input, h_new = linear(hidden, weight, bias).chunk(3, -1)
    reset, update = (h_reset + i_reset).sigmoid(), (h_input + i_input).sigmoid()
    new = (i_new + h_new * reset).tanh()
    return (hidden - new) * update + new


def _rnn(activation):
    return lambda gates, hidden, linear, weight, bias: activation(linear(hidden, weight, bias) + gates)


_cells = {"gru": _gru, "rnn_tanh": _rnn(torch.tanh), "rnn_relu": _rnn(torch.relu)}


def lstm_cell(linear, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    hidden, cell = hx
    gates = linear(hidden, w_hh, b_hh) + linear(input, w_ih, b_ih)
    take, forget, new, give = gates.chunk(4, -1)
    cell = forget.sigmoid() * cell + take.sigmoid() * new.tanh()
    return give.sigmoid() * cell.tanh(), cell


def cell(kind):
    def run(linear, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return _cells[kind](linear(input, w_ih, b_ih), hx, linear, w_hh, b_hh)

    return run


def layers(kind):
    def run(linear, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        if isinstance(params, bool):
            raise NotImplementedError(f"{kind} of packed sequences under torch.autocast is not supported: leave it outside, in "
                                      "torch.autocast(\"cpu\", enabled=False)")
        x = input.transpose(0, 1) if batch_first else input
        width, directions = 4 if has_biases else 2, 2 if bidirectional else 1
        last = []
        for layer in range(num_layers):
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                w_ih, w_hh, b_ih, b_hh = (*params[number * width:(number + 1) * width], None, None)[:4]
                hidden, output = _over_time(_cells[kind], linear(x, w_ih, b_ih), hx[number], linear, w_hh, b_hh, direction == 1)
                outputs.append(output)
                last.append(hidden)
            x = torch.cat(outputs, -1) if bidirectional else outputs[0]
            if dropout and train and layer < num_layers - 1:
                x = F.dropout(x, dropout)
        return x.transpose(0, 1) if batch_first else x, torch.stack(last)

    return run


def _over_time(cell, gates, hidden, linear, weight, bias, reverse):
    """A step gives the type that all further ones have: the state starts in it."""
    def step(hidden, gates):
        new = cell(gates, hidden, linear, weight, bias)
        return new, new.clone()

    if cell is not _gru:
        hidden = hidden.to(gates.dtype)  # it is only ever multiplied
    elif torch.promote_types(hidden.dtype, gates.dtype) != hidden.dtype:
        raise NotImplementedError("gru under torch.autocast is not supported with a state of another lower type")
    return scan(step, hidden, gates, reverse=reverse)


def lstm(linear, *args):
    """All of it in the lower type, which only what is kept between steps shows: it computes in float32 from rounded numbers."""
    lower = linear.args[0]

    def rounded(value):
        if isinstance(value, (list, tuple)):
            return [rounded(v) for v in value]
        return value.to(lower).float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return tuple(result.to(lower) for result in aten.lstm(*map(rounded, args)))


written_out = {"lstm": lstm, "lstm_cell": lstm_cell, "gru_cell": cell("gru"), "rnn_tanh_cell": cell("rnn_tanh"), "rnn_relu_cell": cell("rnn_relu"),
               "gru": layers("gru"), "rnn_tanh": layers("rnn_tanh"), "rnn_relu": layers("rnn_relu")}
