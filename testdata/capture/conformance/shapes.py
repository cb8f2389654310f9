# Dynamic dimensions: arithmetic on sizes, ranges, equalities, derived dimensions, sizes 0 and 1, automatic ones.
import math

import torch
import torch.nn.functional as F

from cases import by_size, case, ints, rand
from torch.export import Dim

batch, seq = Dim("batch", max=64), Dim("seq", min=2, max=64)
vectors = by_size(lambda n: rand(n), 3, 9)


@case(rand(6), shapes={"x": {0: Dim("n", min=2, max=100)}}, others=vectors)
def half_of_it(self, x):
    return x[: x.shape[0] // 2]


@case(rand(6), shapes={"x": {0: Dim("n", min=2, max=100)}}, others=vectors)
def drop_both_ends(self, x):
    return x[1:-1], x[-1:]


@case(rand(5), shapes={"x": {0: Dim("n", min=1, max=100)}}, others=vectors)
def zeros_of_its_size(self, x):
    n = x.size(0)
    return torch.zeros(n * 2), torch.ones(n, 3), x.new_full((n + 1,), 2.0), torch.arange(n) + x


@case(rand(5), shapes={"x": {0: Dim("n", min=1, max=100)}}, others=vectors)
def mean_by_hand(self, x):
    return x.sum() / x.shape[0]


@case(rand(5, 4), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 4), 2, 8))
def pad_with_last(self, x):
    return F.pad(x, (1, 2)), torch.cat([x, x[-1:]])


@case(rand(4, 3), rand(4, 3), shapes={"x": {0: batch}, "y": {0: batch}}, others=[(rand(7, 3), rand(7, 3))])
def equal_batches(self, x, y):
    return x * y


@case(rand(4), rand(8), shapes={"x": {0: Dim("k", max=32)}, "y": {0: 2 * Dim("k", max=32)}}, others=[(rand(6), rand(12))])
def twice_as_long(self, x, y):
    return x + y[::2]


@case(rand(4), rand(5), shapes={"x": {0: Dim("k", max=32)}, "y": {0: Dim("k", max=32) + 1}}, others=[(rand(6), rand(7))])
def one_longer(self, x, y):
    return x + y[1:]


@case(rand(3, 5, 4), shapes={"x": {0: batch, 1: seq}}, others=[(rand(2, 7, 4),), (rand(6, 2, 4),)])
def merge_and_split(self, x):
    b, s, d = x.shape
    return x.reshape(b * s, d).relu().reshape(b, s, d)


@case(rand(3, 5), shapes={"x": (batch, seq)}, others=[(rand(2, 7),)])
def causal_mask(self, x):
    n = x.size(-1)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    return (x[:, None, :] * x[:, :, None]).masked_fill(~mask, 0)


@case(rand(3, 8), shapes={"x": (batch, None)}, others=[(rand(2, 8),)])
def branch_on_static_size(self, x):
    return x.relu() if x.shape[1] > 4 else x


@case(rand(3, 8), shapes={"x": {0: Dim("n", min=2, max=16)}}, others=[(rand(16, 8),)])
def branch_that_the_range_decides(self, x):
    return x + 1 if x.shape[0] < 20 else x - 1


@case(rand(3, 4), shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}}, others=[(rand(5, 4),)])
def automatic_and_fixed(self, x):
    return x @ torch.ones(4, 2)


@case(rand(3, 4), rand(3), shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}, others=[(rand(5, 4), rand(5))])
def automatic_and_equal(self, x, y):
    return x * y[:, None]


@case(rand(3, 4), shapes={"x": {0: Dim.DYNAMIC, 1: Dim.STATIC}}, others=[(rand(9, 4),)])
def dynamic_and_static(self, x):
    return x.softmax(0)


@case(rand(1, 4), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 4), 1, 3))
def example_of_size_one(self, x):
    return x * 2 + x.sum(0)


@case(rand(2, 4), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 4), 1, 3))
def works_for_size_one(self, x):
    return x - x.mean(1, keepdim=True)


@case(rand(2, 4), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 4), 0, 3))
def works_for_size_zero(self, x):
    return x.sum(0), x * 2


@case(rand(1, 3, 8, 8), shapes={"x": {2: Dim("h", min=4, max=64), 3: Dim("w", min=4, max=64)}}, others=[(rand(1, 3, 6, 12),)])
def pool_of_any_size(self, x):
    return F.max_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1), F.avg_pool2d(x, 3, stride=2, padding=1)


@case(rand(1, 2, 9, 7), shapes={"x": {2: Dim("h", min=4, max=64), 3: Dim("w", min=4, max=64)}}, others=[(rand(1, 2, 5, 8),)])
def same_padding_by_hand(self, x):
    h, w = x.shape[-2:]
    ph, pw = max((math.ceil(h / 2) - 1) * 2 + 3 - h, 0), max((math.ceil(w / 2) - 1) * 2 + 3 - w, 0)
    return F.avg_pool2d(F.pad(x, (pw // 2, pw - pw // 2, ph // 2, ph - ph // 2)), 3, 2)


@case(rand(6), shapes={"x": {0: Dim("n", min=3, max=100)}}, others=vectors)
def modulus_and_minimum(self, x):
    n = x.shape[0]
    return torch.full((n % 3 + 1,), float(2)), x[: torch.sym_min(n, 4)], x[: max(n - 2, 1)]


@case(ints(4, high=3), shapes={"x": {0: Dim("n", min=1, max=100)}}, others=[(ints(7, high=3),)])
def one_hot_by_comparison(self, x):
    return (x[:, None] == torch.arange(3)).to(torch.float32)


@case(rand(4, 3), rand(2, 3), shapes={"x": {0: Dim("m", max=32)}, "y": {0: Dim("n", max=32)}}, others=[(rand(3, 3), rand(5, 3))])
def pairwise_distances(self, x, y):
    return (x[:, None] - y[None]).square().sum(-1).sqrt()


@case(rand(6), shapes={"x": {0: Dim("n", min=2, max=50)}}, others=vectors)
def checked_size(self, x):
    torch._check(x.shape[0] >= 2)
    return x[:2] * x.shape[0]


@case(rand(3, 5, 4), shapes={"x": {0: batch}}, others=by_size(lambda n: rand(n, 5, 4), 1, 6))
def beside_the_first(self, x):
    y = x.clone()
    y -= x[:1]
    return x - x[:1], torch.maximum(x[-1:], x), torch.where(x > 0, x, x[:1, :1]), x.masked_fill(x[:1] > 0, 0), y, x @ x[:1].mT
