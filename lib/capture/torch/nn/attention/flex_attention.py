# torch.nn.attention.flex_attention: attention whose scores and mask are functions of one place (b, h, q_idx, kv_idx).
#
# What they compute is written for all places at once by vmap, as ordinary operators. Without a score_mod what is left is
# scaled_dot_product_attention, with a boolean mask or none, which `atenon lower` has a kernel for; otherwise scores, softmax and
# product are written out. A BlockMask is its mask_mod: the lists of blocks that let PyTorch's kernels skip some are computed only for
# whom asks. Results are those of PyTorch's unfused implementation, which does not look at blocks either.
import functools
import math
from collections.abc import Callable
from typing import NamedTuple, Optional

import torch
from torch import _vmap
from torch._tensor import Tensor
from torch.nn import functional as F

import _atenon

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask", "flex_attention",
           "noop_mask", "or_masks"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
FlexKernelOptions = dict
_score_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
_mask_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class AuxRequest(NamedTuple):
    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    lse: Optional[Tensor] = None
    max_scores: Optional[Tensor] = None


# --- Functions of a place


def _in_one_capture(function):
    """Outside of a capture vmap calls a function for each example, here for each score: it is captured on its own instead."""

    @functools.wraps(function)
    def run(*tensors):
        return function(*tensors) if _atenon.is_tracing() else torch.export.export(function, tensors).module()(*tensors)

    return run


def _places(batch, heads, rows, columns, device=None):
    return [torch.arange(size, device=device) for size in (batch, heads, rows, columns)]


def _checked(function, is_mask):
    """Raises where the result is not what an attention can use."""

    def run(*arguments):
        result = function(*arguments)
        if not isinstance(result, Tensor) or result.dim() or is_mask and result.dtype != torch.bool:
            found = f"{result.dtype} of shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
            expected = "a mask_mod returns one boolean tensor" if is_mask else "a score_mod returns one tensor"
            raise ValueError(f"{expected} without dimensions, not {found}")
        return result

    return run


def _of_all_scores(score_mod):
    score_mod = _checked(score_mod, False)
    for dims in ((0, None, None, None, 0), (0, None, None, 0, None), (0, None, 0, None, None), (0, 0, None, None, None)):
        score_mod = torch.vmap(score_mod, dims)
    return score_mod


def _along(function, place):
    """vmap over one index; what does not depend on it has size 1 there, so that a mask for all heads is not one for each."""

    def run(*indices):
        examples = _vmap._Examples(tuple(0 if i == place else None for i in range(4)), indices)
        (result,), _, (varies,) = _vmap._batched(lambda part: function(*examples.filled([part])), examples, "error")
        return result if varies else result.unsqueeze(0)

    return run


def _of_all_places(mask_mod):
    mask_mod = _checked(mask_mod, True)
    for place in (3, 2, 1, 0):
        mask_mod = _along(mask_mod, place)
    return mask_mod


def _parameter_count(function):
    """Of those without a default."""
    if hasattr(function, "__code__"):
        return function.__code__.co_argcount - len(function.__defaults__ or ())
    import inspect

    return sum(p.default is p.empty for p in inspect.signature(function).parameters.values())


def noop_mask(batch, head, token_q, token_kv):
    return batch.new_ones((), dtype=torch.bool)


def _joined(start, join, mask_mods):
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask_mod(b, h, q_idx, kv_idx):
        return functools.reduce(join, (f(b, h, q_idx, kv_idx) for f in mask_mods), b.new_full((), start, dtype=torch.bool))

    return mask_mod


def or_masks(*mask_mods):
    return _joined(False, lambda a, b: a | b, mask_mods)


def and_masks(*mask_mods):
    return _joined(True, lambda a, b: a & b, mask_mods)


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """Of a mask_mod, or where a score_mod leaves -inf."""
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    count = _parameter_count(mod_fn)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    places = _places(*sizes, device)
    if count == 4:
        return _in_one_capture(lambda *places: _of_all_places(mod_fn)(*places).expand(sizes))(*places)
    scores = _in_one_capture(_of_all_scores(mod_fn))(torch.zeros(sizes, device=device), *places)
    return ~torch.isneginf(scores)


# --- Masks of blocks


def _sliced_mask_mod_error(batch, head, token_q, token_kv):
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask: set it from the BlockMask that was sliced")


def _ordered(dense):
    """How many blocks each row has, and which, first those that it has."""
    dense = dense.to(torch.int32)
    return dense.sum(-1).to(torch.int32), dense.argsort(dim=-1, descending=True, stable=True).to(torch.int32)


def _dense(counts, indices):
    """The inverse of _ordered."""
    has = torch.arange(indices.shape[-1]) < counts.unsqueeze(-1)
    return torch.zeros_like(indices).scatter(-1, indices.long(), has.to(torch.int32))


def _transposed(counts, indices):
    return (None, None) if counts is None else _ordered(_dense(counts, indices).mT)


def _blocks_of(mask, block_size, separate_full_blocks):
    rows, columns = block_size
    mask = F.pad(mask, (0, -mask.shape[-1] % columns, 0, -mask.shape[-2] % rows))
    seen = mask.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows)).sum((-3, -1))
    full = seen == rows * columns
    return (*_ordered((seen > 0) & ~full), *_ordered(full)) if separate_full_blocks else (*_ordered(seen > 0), None, None)


class BlockMask:
    """Made by create_block_mask or from_kv_blocks."""

    _KV = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
    _Q = ("q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices")

    def __init__(self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_num_blocks, q_indices,
                 full_q_num_blocks, full_q_indices, BLOCK_SIZE=(_DEFAULT_SPARSE_BLOCK_SIZE,) * 2, mask_mod=noop_mask):
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        given = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_num_blocks, q_indices, full_q_num_blocks, full_q_indices)
        self.__dict__.update(zip((*self._KV, *self._Q), given))
        self._hold(seq_lengths, BLOCK_SIZE, mask_mod, kv_indices.shape[:-2])

    def _hold(self, seq_lengths, block_size, mask_mod, batch):
        self.seq_lengths = tuple(seq_lengths)
        self.BLOCK_SIZE = (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)
        self.mask_mod = mask_mod
        self._batch = tuple(batch)  # the sizes before the lengths
        return self

    @classmethod
    def _lazy(cls, blocks, *held):
        """`blocks` gives the four tensors of _KV."""
        self = cls.__new__(cls)
        self._blocks = blocks
        return self._hold(*held)

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
                       BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, mask_mod=None, seq_lengths=None, compute_q_blocks=True):
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * rows, kv_indices.shape[-1] * columns)
        blocks = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        return cls._lazy(lambda: blocks, seq_lengths, (rows, columns), noop_mask if mask_mod is None else mask_mod, kv_indices.shape[:-2])

    def __getattr__(self, name):
        if name in self._KV:
            return self._blocks()[self._KV.index(name)]
        if name in self._Q:
            counts, indices, full_counts, full_indices = self._blocks()
            return (*_transposed(counts, indices), *_transposed(full_counts, full_indices))[self._Q.index(name)]
        if name == "_blocks":
            return lambda: tuple(self.__dict__[n] for n in self._KV)
        raise AttributeError(f"'BlockMask' object has no attribute '{name}'")

    @property
    def shape(self):
        return self._batch + self.seq_lengths

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        padded = (*index, slice(None), slice(None), slice(None))[:3]
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in padded)  # no dimension goes
        batch = torch.empty(self._batch)[index[:2]].shape
        return self._lazy(lambda: tuple(b if b is None else b[index] for b in self._blocks()), self.seq_lengths, self.BLOCK_SIZE,
                          _sliced_mask_mod_error, batch)

    def _adjust(self, new_q_len, new_kv_len):
        """The upper left corner."""
        rows, columns = (-(-new // size) for new, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE))

        def cropped(counts, indices):
            return (None, None) if counts is None else _ordered(_dense(counts, indices)[:, :, :rows, :columns])

        def blocks():
            counts, indices, full_counts, full_indices = self._blocks()
            return (*cropped(counts, indices), *cropped(full_counts, full_indices))

        return self._lazy(blocks, (new_q_len, new_kv_len), self.BLOCK_SIZE, self.mask_mod, self._batch)

    def to(self, device):
        torch.empty((), device=device)  # is there one?
        return self._lazy(self._blocks, self.seq_lengths, self.BLOCK_SIZE, self.mask_mod, self._batch)

    def numel(self):
        return math.prod(self.shape)

    def sparsity(self):
        """Per cent of the mask that are in no block."""
        counts, _, full_counts, _ = self._blocks()
        blocks = counts.sum().item() + (0 if full_counts is None else full_counts.sum().item())
        return 100 * (1 - blocks * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_dense(self):
        """Of blocks, not of places."""
        counts, indices, full_counts, full_indices = self._blocks()
        partial = _dense(counts, indices)
        return partial if full_counts is None else partial | _dense(full_counts, full_indices)

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, BLOCK_SIZE={self.BLOCK_SIZE}, mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)})"


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile=False,
                      separate_full_blocks=True, compute_dq_write_order=False, dq_kv_order=True):
    """Orders of dq are for gradients."""
    if _parameter_count(mask_mod) != 4:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    torch.empty((), device=device)  # is there one?
    block_size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    batch = (1 if B is None else B, 1 if H is None else H)
    return BlockMask._lazy(lambda: _blocks_of(create_mask(mask_mod, *batch, Q_LEN, KV_LEN), block_size, separate_full_blocks),
                           (Q_LEN, KV_LEN), block_size, mask_mod, batch)


# --- Attention


def _check(query, key, value, block_mask, enable_gqa):
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError("Expect query and key/value to have the same embedding dimension "
                         f"but got E={query.shape[-1]} and E={key.shape[-1]}.")
    heads, shared = query.shape[1], key.shape[1]
    if not enable_gqa and heads != shared:
        raise ValueError(f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}. "
                         "Try setting enable_gqa=True for GQA.")
    if heads % shared != 0:
        raise ValueError(f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={shared}.")
    if query.shape[0] != key.shape[0] and (block_mask is None or key.shape[0] != 1):
        raise ValueError(f"Expect query and key/value to have the same batch size, but got Bq={query.shape[0]} and Bkv={key.shape[0]}.")
    if block_mask is None:
        return
    if block_mask.mask_mod is _sliced_mask_mod_error:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
    lengths = (query.shape[2], key.shape[2])
    if any(given != made for given, made in zip(lengths, block_mask.seq_lengths)):
        raise ValueError(f"block_mask was created for block_mask.shape={block_mask.shape} "
                         f"but got q_len={lengths[0]} and kv_len={lengths[1]}.")


def _as_one_function(query, key, value, mask_mod, scale):
    places = _places(*query.shape[:3], key.shape[2])
    mask = None if mask_mod is None else _of_all_places(mask_mod)(*places)
    return F.scaled_dot_product_attention(query, key, value, mask, scale=scale, enable_gqa=query.shape[1] != key.shape[1])


def _written_out(query, key, value, score_mod, mask_mod, scale):
    """The result, and the scores that are weighed: in float32 where the query is narrower."""
    precision = torch.float64 if query.dtype == torch.float64 else torch.float32
    places = _places(*query.shape[:3], key.shape[2])
    if query.shape[1] != key.shape[1]:
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query.to(precision) @ key.to(precision).mT * scale
    if score_mod is not None:
        scores = _of_all_scores(score_mod)(scores, *places)
    if mask_mod is not None:
        scores = torch.where(_of_all_places(mask_mod)(*places), scores, float("-inf"))
    return torch._safe_softmax(scores, -1).to(query.dtype) @ value.to(query.dtype), scores


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                   kernel_options=None, *, return_aux=None):
    """`kernel_options` choose among PyTorch's kernels."""
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux. return_lse is deprecated, "
                         "please use return_aux=AuxRequest(lse=True) instead.")
    if torch.is_autocast_enabled("cpu"):  # what is computed inside has its types already
        lower = torch.get_autocast_dtype("cpu")
        query, key, value = (x if x.dtype == torch.float64 else x.to(lower) for x in (query, key, value))
        with torch.autocast("cpu", enabled=False):
            return flex_attention(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, return_aux=return_aux)
    _check(query, key, value, block_mask, enable_gqa)
    if query.shape[0] != key.shape[0]:
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    mask_mod = None if block_mask is None or block_mask.mask_mod is noop_mask else block_mask.mask_mod
    wanted = return_aux or AuxRequest(lse=return_lse)
    if score_mod is None and not any(wanted) and query.dtype == key.dtype == value.dtype:
        result = _in_one_capture(lambda *qkv: _as_one_function(*qkv, mask_mod, scale))(query, key, value)
        return result if return_aux is None else (result, AuxOutput())
    result, scores = _in_one_capture(lambda *qkv: _written_out(*qkv, score_mod, mask_mod, scale))(query, key, value)
    lse = scores.logsumexp(-1) if wanted.lse else None
    if return_aux is not None:
        return result, AuxOutput(lse, scores.amax(-1) if wanted.max_scores else None)
    return (result, lse) if return_lse else result
