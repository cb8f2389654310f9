# torch.vmap, operator by operator: each function is called for a whole batch at once, whatever its size.
import torch
import torch.nn.functional as F
from torch import nn

from cases import by_size, case, ints, rand

BATCH = {0: torch.export.Dim("batch", max=64)}


def vmapped(function, *args, others=(), shapes=None, **options):
    """A case that maps a function over its arguments."""

    def forward(self, *args):
        return torch.vmap(function, **options)(*args)

    forward.__name__ = function.__name__
    return case(*args, shapes=shapes, others=others)(forward)


def over(*args):
    return lambda function: vmapped(function, *args)


def over_rows(function):
    """With a batch whose size is dynamic."""
    return vmapped(function, rand(3, 4, 5), shapes=(({**BATCH},),), others=by_size(lambda n: rand(n, 4, 5), 2, 7))


@over_rows
def batched_elementwise(x):
    return torch.sigmoid(x) * x[0] + x[:, :1].abs().clamp(max=0.5), torch.where(x > 0, x, x.mean()), x.masked_fill(x > x[0, 0], 0.0)


@over_rows
def batched_types(x):
    count = (x > 0).sum()
    return x * count, count * 2, count + x[0, 0].double(), x + x[0, 0].double(), count / 3, (x * count.int()).half()


@over_rows
def batched_reductions(x):
    return (x.sum(), x.sum(0), x.mean(-1, keepdim=True), x.amax((0, 1)), x.max(), x.max(1), x.argmin(), x.argmax(0), x.prod(1), x.prod(),
            x.var(0), x.std(), x.norm(), x.norm(dim=1), x.logsumexp(1), (x > 0).any(), (x > 0).all(0), x.count_nonzero(1), x.sum((0, 1)))


@over_rows
def batched_scalars(x):
    s = x.sum()
    return s.sum(), s.mean(), s.exp() + 1, s.unsqueeze(0), s.expand(2, 3), s.reshape(1, 1), torch.stack([s, s * 2])


@over_rows
def batched_shapes(x):
    return (x.t(), x.flatten(), x.reshape(2, 10), x.unsqueeze(1), x.unsqueeze(-1), x.permute(-1, 0), x.transpose(0, 1), x[1], x[:, 1:4:2], x[..., -1],
            x.unflatten(1, (5, 1)).squeeze(-1), x.expand(2, 4, 5), x.repeat(2, 1, 2), x.flip(0), x.roll(1, 1), x.movedim(0, 1), x.narrow(1, 1, 2))


@over_rows
def batched_parts(x):
    a, b = x.split([1, 3])
    c, d = x.chunk(2, 1)
    rows = x.unbind(0)
    return a, b.sum(), c, d, rows[2], torch.cat([a, b], 0), torch.stack(rows, 1), torch.cat([x, torch.ones(1, 5)]), torch.hstack([c, d])


@over_rows
def batched_scans(x):
    return x.cumsum(0), x.cumprod(-1), x.softmax(0), x.log_softmax(-1), x.sort(0), x.topk(2, 1), x.argsort(1), x.cummax(1), x.kthvalue(2, 0), x.median()


@over_rows
def batched_products(x):
    w = torch.arange(10.0).reshape(5, 2) / 7
    return x @ w, x.t() @ x, w.t() @ x.t(), x @ w[:, 0], x[0] @ x[1], x[0] @ w, torch.mv(x, x[0]), torch.outer(x[0], x[1]), torch.einsum("ij,kj->ik", x, x), torch.einsum(
        "ij,jk", x, w), torch.addmm(torch.ones(2), x, w), F.linear(x, w.t()), torch.trace(x[:4, :4]), torch.dot(x[0], w[:, 1])


@over_rows
def batched_stacks(x):
    y = x.reshape(2, 2, 5)
    return torch.bmm(y, y.mT), y @ torch.ones(5, 3), torch.ones(2, 3, 2) @ y, torch.baddbmm(torch.ones(2, 2, 2), y, y.mT)


@over_rows
def batched_corners(x):
    square = x[:, :4]
    return x.triu(), square.tril(-1), square.diagonal(), torch.diag_embed(x[0]), F.pad(x, (1, 2)), torch.diag(x[0]), square.diag()


@over_rows
def batched_norms(x):
    return F.layer_norm(x, (5,)), F.layer_norm(x, (5,), torch.arange(5.0), x[0]), F.normalize(x, dim=0), F.gelu(x), F.glu(x[:, :4]), F.softplus(x)


@over_rows
def batched_in_place(x):
    y = x.clone()
    y[0] += 1
    y[:, 1] = y[:, 2] * 2
    y[:, [0, 3]] = 0.25
    z = torch.zeros(4, 5)
    z = z + y
    return y, z.mul_(2)


@over_rows
def batched_losses(x):
    return F.mse_loss(x, x * 2), F.l1_loss(x[0], x[1], reduction="none"), F.cross_entropy(x, torch.tensor([0, 1, 2, 4])), F.smooth_l1_loss(x, torch.zeros(4, 5))


@case(rand(3, 4, 5), ints(3, 2), shapes=(BATCH, BATCH), others=[(rand(6, 4, 5), ints(6, 2))])
def batched_indices(self, x, i):
    table = torch.arange(8.0).reshape(4, 2)

    def f(x, i):
        return (x[i], x[:, i], x[i, i], x[i[0]], x[:, i[0]], table[i], table[:, i % 2], x.index_select(0, i), x.gather(1, i.expand(4, 2)),
                table.index_select(0, i), x[torch.tensor([0, 2])], x[:, [1, 3]], F.embedding(i, table), F.one_hot(i, 4), x.take_along_dim(i.unsqueeze(1), 0))

    return torch.vmap(f)(x, i)


@case(rand(3, 4, 5), ints(3, 2), shapes=(BATCH, BATCH), others=[(rand(6, 4, 5), ints(6, 2))])
def batched_scatters(self, x, i):
    def f(x, i):
        rows = i.unsqueeze(1).expand(2, 5)
        return x.scatter(0, rows[:1], 1.0), x.scatter_add(0, rows, torch.ones(2, 5)), torch.zeros(4, 5).scatter(0, rows[:1], x), x.index_add(
            0, torch.tensor([0, 1]), x[:2]), x.index_fill(1, torch.tensor([2]), 9.0)

    return torch.vmap(f)(x, i)


@case(rand(3, 4), rand(5), rand(3))
def batched_unbatched(self, x, w, s):
    def f(x, w, s):
        constant = w.exp() * 2
        return constant, x * s, constant[:4] + x, s

    return torch.vmap(f, in_dims=(0, None, 0))(x, w, s), torch.vmap(f, in_dims=(0, None, 0), out_dims=(None, 1, -1, 0))(x, w, s)


@case(rand(4, 3, 2), rand(2, 3))
def batched_dims(self, x, y):
    f = lambda a, b: (a * b, b.sum())
    return torch.vmap(f, in_dims=(1, -1), out_dims=(-1, 0))(x, y), torch.vmap(f, (1, 1), (1, 0), chunk_size=2)(x, y), torch.vmap(
        lambda a, *, scale: a * scale, in_dims=1)(x, scale=torch.arange(2.0))


@case(rand(3, 4), rand(5, 4), shapes=({0: torch.export.Dim("n")}, {0: torch.export.Dim("m")}), others=[(rand(2, 4), rand(7, 4))])
def batched_pairs(self, x, y):
    distance = lambda a, b: (a - b).square().sum().sqrt()
    return torch.vmap(torch.vmap(distance, (None, 0)), (0, None))(x, y), torch.vmap(torch.vmap(lambda a, b: a @ b + a[0], (0, None)), (None, 0))(x, y)


@case(rand(2, 3, 4), rand(2, 4, 3))
def batched_three_levels(self, x, y):
    f = lambda a, b: a * b.sum() + 1
    return torch.vmap(torch.vmap(torch.vmap(f, (0, None)), (0, None)))(x, y)


@case(rand(3, 2, 3, 6, 6), shapes=({0: torch.export.Dim("batch")},), others=by_size(lambda n: rand(n, 2, 3, 6, 6), 2, 4))
class BatchedImages(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.group = nn.GroupNorm(2, 4)

    def forward(self, x):
        def f(image):
            y = self.group(self.norm(self.convolution(image)))
            return F.max_pool2d(y, 2), F.avg_pool2d(y, 3), F.adaptive_avg_pool2d(y, 1), F.interpolate(y, scale_factor=2.0), F.pixel_shuffle(
                y, 2), F.interpolate(y, size=(4, 4), mode="bilinear")

        return torch.vmap(f)(x), torch.vmap(lambda image: self.convolution(image[0]))(x)


@case(rand(2, 1, 3, 5), rand(2, 4, 3, 3), rand(2, 4))
def batched_kernels(self, x, w, b):
    return torch.vmap(lambda x, w, b: F.conv1d(x, w, b))(x, w, b), torch.vmap(lambda w: F.conv1d(x[0], w))(w), torch.vmap(lambda x, b: F.conv1d(x, w[0], b))(x, b)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@case(rand(5, 4))
class BatchedEnsemble(nn.Module):
    """Several models as one, by functional_call over stacked parameters."""

    def __init__(self):
        super().__init__()
        self.models = nn.ModuleList([Small() for _ in range(3)])

    def forward(self, x):
        stacked = {name: torch.stack([dict(m.named_parameters())[name] for m in self.models]) for name, _ in self.models[0].named_parameters()}
        return torch.vmap(lambda p, x: torch.func.functional_call(self.models[0], p, (x,)), in_dims=(0, None))(stacked, x)


@case(rand(2, 3, 4, 8), rand(2, 3, 4, 8), shapes=(BATCH, BATCH), others=[(rand(5, 3, 4, 8), rand(5, 3, 4, 8))])
def batched_attention(self, q, k):
    return torch.vmap(lambda q, k: F.scaled_dot_product_attention(q, k, k))(q, k), torch.vmap(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True))(q, k)


@case(rand(3, 4, 4))
def batched_matrices(self, x):
    positive = x @ x.mT + 2 * torch.eye(4)
    return torch.vmap(torch.linalg.cholesky)(positive), torch.vmap(torch.linalg.inv)(positive), torch.vmap(torch.det)(x), torch.vmap(
        lambda m: torch.linalg.solve(m, torch.ones(4)))(positive)


@over_rows
def batched_rolls(x):
    return x.roll(1), x.roll(7), x.roll(-1, 0), x.roll((1, 2), (0, 1)), torch.vmap(lambda r: r.roll(1))(x)


@over_rows
def batched_by_place(x):
    """What is made of elements at other places is not element by element."""
    x = (x * 3).round()
    pairs = x.reshape(2, 5, 2)
    return (x.mode(0), x.mode(-1, keepdim=True), x.repeat_interleave(2, 0), x.repeat_interleave(2), torch.view_as_complex(pairs),
            torch.view_as_real(torch.complex(x, x)), torch.linspace(x[0, 0], x[1, 1], 4))


@over_rows
def batched_writes(x):
    """Into what would be the same for all examples."""
    rows, places, columns, like = torch.zeros_like(x), x.new_zeros(4, 5), torch.ones_like(x), torch.empty_like(x)
    rows[1] = x[0]
    places[:] = x[2]
    columns[:, 0] = x[:, 1]
    columns.diagonal().copy_(x[:, 2])
    columns.view(2, 10)[1].mul_(2)
    return rows, places, columns, like.copy_(x), torch.zeros_like(x).view(2, 10).copy_(x.view(2, 10))


@over_rows
def batched_fills(x):
    return (x.masked_fill(x > 0, x.min()), x.sum().masked_fill(x.sum() > 0, x.min()), torch.ones(2, 4, 5).masked_fill(x > 0, x.sum()),
            x.clone().fill_(x.sum()), torch.fill(torch.zeros(4, 5), x.sum()), x.sum().clone().fill_(x.max()))


@over_rows
def batched_selections(x):
    return x.sum().index_select(0, torch.tensor([0])), x.index_select(1, torch.tensor([0, 2])), x[0].index_select(0, x[1].argsort())


@over(rand(2, 3, 2, 4, 6))
def batched_image_sizes(x):
    line, image = x[0], x[:, :1]
    return (F.interpolate(line, 9, mode="nearest-exact"), F.interpolate(image, (6, 3), mode="nearest-exact"),
            F.interpolate(x[None], (2, 6, 3), mode="nearest-exact"), F.interpolate(x, (6, 3), mode="nearest-exact"),
            F.interpolate(x, (6, 9), mode="bicubic"), F.interpolate(line, 9, mode="linear"),
            F.interpolate(x[None], (4, 2, 3), mode="trilinear", align_corners=True))


@over(rand(2, 3, 2, 4, 6))
def batched_grids(x):
    flat, solid = x[:, 0, :2, :3], x[:, 0, :3, :4]
    grid = F.affine_grid(flat, (3, 2, 2, 3), align_corners=False)
    return (grid, F.affine_grid(solid, (3, 1, 2, 3, 2), align_corners=True), F.grid_sample(x, grid, align_corners=False),
            F.grid_sample(torch.ones(3, 1, 2, 2), grid, mode="nearest", align_corners=True),
            F.grid_sample(x, torch.zeros(3, 2, 3, 2), mode="bicubic", align_corners=False))


@over(rand(2, 12, 6))
def batched_folds(x):
    return F.fold(x, (3, 4), 2), F.fold(x[None], (3, 4), 2), F.unfold(x[None], 2), F.channel_shuffle(x[None], 3), F.channel_shuffle(x.view(1, 4, 3, 6), 2)


@case(rand(4, 3), shapes=({1: torch.export.Dim("batch")},), others=[(rand(4, 5),)])
def batched_columns(self, x):
    return torch.vmap(lambda column: column.contiguous().as_strided((2, 2), (1, 2)), in_dims=1)(x)


@case(rand(3, 4), shapes=(BATCH,), others=by_size(lambda n: rand(n, 4), 2, 9))
def batched_without_rule(self, x):
    return torch.vmap(lambda r: torch.searchsorted(r.sort().values, r) + torch.fft.fft(r).abs())(x), torch.vmap(
        lambda r: torch.bucketize(r, torch.tensor([-0.5, 0.0, 0.5])))(x)


@case(rand(3, 4))
def batched_random_shapes(self, x):
    same = torch.vmap(lambda r: r * 0 + torch.rand(4), randomness="same")(x)
    different = torch.vmap(lambda r: r * 0 + torch.rand(4) + torch.rand_like(r), randomness="different")(x)
    return (same - same[0]).abs().max(), (different - different[0]).abs().max() > 0, (F.dropout(x, 0.5, True) * 0).shape[0]
