# Views of inputs and intermediates: slices, transposes, reshapes, splits, expansions.
import torch
import torch.nn.functional as F

from cases import by_size, case, ints, rand
from torch.export import Dim

batch = Dim("batch", max=64)
rows = by_size(lambda n: rand(n, 4), 2, 5)


@case(rand(6, 3, 2), shapes={"x": {1: batch}}, others=by_size(lambda n: rand(6, n, 2), 2, 5))
def windows_by_strides_of_a_transposed_one(self, x):
    y = x.transpose(0, 1).view(-1, 3, 2, 2)
    strides = list(y.stride())
    strides[1] //= 2
    return y.as_strided([x.shape[1], 5, 2, 2], strides)


@case(rand(6, 4), shapes={"x": {0: batch}}, others=rows)
def slice_with_step(self, x):
    return x[:, 1::2] + x[:, ::2]


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def transpose_and_multiply(self, x):
    return x.t() @ x


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def view_with_minus_one(self, x):
    return x.view(-1, 2).sum(1)


@case(rand(2, 3, 4), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 3, 4), 3))
def flatten_and_unflatten(self, x):
    return x.flatten(1).unflatten(1, (4, 3)).permute(0, 2, 1)


@case(rand(4, 6))
def split_in_parts(self, x):
    a, b, c = x.split([1, 2, 3], dim=1)
    return a + b.sum(1, keepdim=True), c


@case(rand(5, 4))
def chunks_of_unequal_size(self, x):
    return [part * i for i, part in enumerate(x.chunk(3))]


@case(rand(3, 2))
def unbind_rows(self, x):
    first, second, third = x.unbind()
    return first + second - third


@case(rand(1, 4), shapes={"x": {0: batch}}, others=rows)
def expand_new_axis(self, x):
    return x.unsqueeze(1).expand(-1, 3, -1) * 2


@case(rand(4, 4))
def diagonal_of_square(self, x):
    return x.diagonal() + x.diagonal(1).sum()


@case(rand(2, 1, 3, 1))
def squeeze_axes(self, x):
    return x.squeeze(), x.squeeze(1), x.squeeze((1, 3))


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def narrow_and_select(self, x):
    return x.narrow(1, 1, 2) * x.select(0, 0)[None, :2]


@case(rand(8), shapes={"x": {0: Dim("n", min=4, max=32)}}, others=by_size(lambda n: rand(n), 5, 12))
def unfold_windows(self, x):
    return x.unfold(0, 3, 1).mean(1)


@case(rand(2, 3), rand(3))
def broadcast_explicitly(self, x, y):
    a, b = torch.broadcast_tensors(x, y)
    return a * b


@case(rand(3, 4), shapes={"x": {0: batch}}, others=rows)
def stack_and_concatenate(self, x):
    return torch.stack([x, -x], 1), torch.cat([x, x[:1]], 0)


@case(rand(2, 6))
def movedim_and_swap(self, x):
    return x.reshape(2, 3, 2).movedim(0, -1).swapaxes(0, 1)


@case(rand(3, 4))
def flip_and_roll(self, x):
    return x.flip(0), torch.roll(x, 1, dims=1), x.rot90()


@case(rand(4), ints(3, high=4))
def gather_by_index(self, x, index):
    return x[index] + x.index_select(0, index) + x.take(index)


@case(rand(3, 4))
def mixed_indices(self, x):
    return x[[0, 2]], x[..., -1], x[1:, None, ::2], x[:, [1, 3]], x[torch.tensor([0, 1]), torch.tensor([1, 2])]


@case(rand(3, 4))
def complex_view(self, x):
    return torch.view_as_complex(x.reshape(3, 2, 2)).abs()


@case(rand(3, 3))
def triangles(self, x):
    return x.tril(), x.triu(1), torch.tril(torch.ones(3, 3), -1) + x


@case(rand(2, 3), shapes={"x": {0: batch, 1: Dim("width", max=16)}}, others=[(rand(4, 5),)])
def repeat_by_size(self, x):
    return x.repeat(2, 1).reshape(2, x.shape[0], x.shape[1]), x.repeat_interleave(2, 1)


@case(rand(2, 8, 4), shapes={"x": {0: batch, 1: Dim("seq", max=32)}}, others=[(rand(3, 5, 4),)])
def attention_heads(self, x):
    b, s, d = x.shape
    heads = x.view(b, s, 2, d // 2).transpose(1, 2)
    weights = (heads @ heads.transpose(-2, -1) / 2).softmax(-1)
    return (weights @ heads).transpose(1, 2).reshape(b, s, d)


# --- Indices as older NumPy took them, and masks


@case(rand(4, 5, 6), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 5, 6), 5))
def lists_of_indices(self, x):
    i, j = torch.tensor([0, 2, 1]), torch.tensor([1, 1, 0])
    y = x.clone()
    y[[slice(1, 3), 0]] = 0.0
    return x[[i, j]], x[[[0, 1], [1, 2]]], x[[[0, 1]]], x[[slice(0, 2), 1]], x[[None, 0]], x[[0, 1]], x[[torch.tensor(1), torch.tensor(2)]], y


@case(rand(3, 5, 6))
def truths_as_indices(self, x):
    keep = torch.tensor([1, 0, 1, 0, 1], dtype=torch.uint8)
    return x[True], x[False], x[:, True], x[True, 0], x[:, keep], x[:, keep, 0]


# --- Memory


@case(rand(2, 4, 3, 3))
def images_channels_last(self, x):
    y = x.to(memory_format=torch.channels_last)
    z = x.clone().contiguous(memory_format=torch.channels_last)
    z.add_(1)
    return x, y.stride(), z.stride(), y.half().stride(), y.double().reshape(-1), F.glu(y, 1).stride()


@case(rand(4, 5, 6))
def updates_of_what_was_turned(self, x):
    halves, gates = x.permute(2, 0, 1).half(), F.glu(x.transpose(0, 1), -1)
    heads = x.view(4, 5, 2, 3).transpose(1, 2)
    attended = F.scaled_dot_product_attention(heads, heads, heads)
    halves.reshape(-1).add_(1)
    gates.reshape(-1).add_(1)
    attended.reshape(-1).add_(1)
    attended.transpose(1, 2).reshape(-1).mul_(2)
    return halves, gates, attended


@case(rand(2, 5, 4))
class UpdatesOfRecurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True),
                                           torch.nn.GRU(4, 3, batch_first=True), torch.nn.RNN(4, 3)])
        self.stride = self.layers[1](torch.ones(2, 5, 4))[0].stride()

    def forward(self, x):
        results = [layer(x) for layer in self.layers]
        for y, _ in results:
            y.reshape(-1).mul_(2)
            y.transpose(0, 1).reshape(-1).add_(1)
        return [(y, y.stride(), state) for y, state in results], self.stride
