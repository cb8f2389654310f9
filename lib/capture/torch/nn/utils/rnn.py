# Sequences of different lengths: padded, packed, and back.
import contextlib
from collections import namedtuple

import _atenon

import torch
from torch import _placeholder

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
           "unpack_sequence", "unpad_sequence"]


class _Rows:
    """Where the rows of a packed batch lie in the padded one of `steps` steps, time first. How many there are, only the lengths say."""

    def __init__(self, lengths, is_sorted, steps):
        self.lengths, self.is_sorted, self.steps = lengths, is_sorted, steps
        self._places = self._batch_sizes = None

    @property
    def order(self):
        return torch.sort(self.lengths, descending=True, stable=True).indices

    @property
    def batch_sizes(self):
        if self._batch_sizes is None:
            longest = self.lengths.max().item()
            torch._check(longest <= self.steps)
            self._batch_sizes = is_inside(longest, self.lengths).sum(1)
            self._batch_sizes._rows = self  # the parts of a packed sequence know each other
        return self._batch_sizes

    @property
    def places(self):
        if self._places is None:
            self._places = self._find_places()
        return self._places

    def _find_places(self):
        batch = self.lengths.size(0)
        with contextlib.suppress(_atenon.CaptureError):  # of lengths that depend on the model's inputs
            lengths = self.lengths.tolist()
            order = range(batch) if self.is_sorted else sorted(range(batch), key=lambda i: -lengths[i])
            places = [step * batch + i for step in range(max(lengths)) for i in order if lengths[i] > step]
            return torch.tensor(places, dtype=torch.int64)
        order = torch.arange(batch) if self.is_sorted else self.order
        return (torch.arange(self.steps).unsqueeze(1) * batch + order)[is_inside(self.steps, self.lengths[order])]

    def packed(self, padded):
        return padded.flatten(0, 1)[self.places]

    def padded(self, packed):
        flat = packed.new_zeros((self.steps * self.lengths.size(0), *packed.shape[1:]))
        return flat.index_copy(0, self.places, packed).unflatten(0, (self.steps, self.lengths.size(0)))


class PackedSequence(namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """Here the padded batch, time first, and its lengths: layers take it as it is, and the rows are put together for who asks."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        rows = getattr(batch_sizes, "_rows", None)
        if rows is None:
            raise _placeholder.Unsupported("a PackedSequence is made of parts of another one, and its batch_sizes: pad the sequences, and "
                                           "pack_padded_sequence")
        padded = rows.padded(data)
        if sorted_indices is None and not rows.is_sorted:  # the sequences stay in the order of their lengths
            padded, rows = padded[:, rows.order], _Rows(rows.lengths[rows.order], True, rows.steps)
        return cls.of_padded(padded, rows)

    @classmethod
    def of_padded(cls, padded, rows):
        made = super().__new__(cls, None, None, None, None)
        made.padded, made.rows = padded, rows
        return made

    @classmethod
    def _make(cls, parts):  # _replace calls it
        return cls(*parts)

    lengths = property(lambda self: self.rows.lengths)
    data = property(lambda self: self.rows.packed(self.padded))
    batch_sizes = property(lambda self: self.rows.batch_sizes)
    sorted_indices = property(lambda self: None if self.rows.is_sorted else self.rows.order)
    unsorted_indices = property(lambda self: invert_permutation(self.sorted_indices))
    is_cuda = False

    def __iter__(self):
        return (getattr(self, field) for field in self._fields)

    def __getitem__(self, i):
        return getattr(self, self._fields[i]) if isinstance(i, int) else tuple(self)[i]

    def to(self, *args, **kwargs):
        return self.of_padded(self.padded.to(*args, **kwargs), self.rows)


def invert_permutation(permutation):
    if permutation is None:
        return None
    return torch.empty_like(permutation).scatter_(0, permutation, torch.arange(0, permutation.numel()))


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Lengths that PyTorch refuses as not sorted are taken."""
    padded = input.transpose(0, 1) if batch_first else input
    if isinstance(lengths, (list, tuple)) and all(type(n) is int for n in (*lengths, padded.size(0))):
        if not all(0 < n <= padded.size(0) for n in lengths):
            raise RuntimeError(f"the lengths {list(lengths)} do not lie between 1 and the {padded.size(0)} steps of the input")
    lengths = torch.as_tensor(lengths, dtype=torch.int64)
    return PackedSequence.of_padded(padded, _Rows(lengths, enforce_sorted, padded.size(0)))


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    padded, lengths = sequence.padded, sequence.lengths
    if total_length is None:  # the longest sequence says
        total_length = lengths.max().item()
        torch._check(total_length <= padded.size(0))
    rest = max(total_length - padded.size(0), 0)
    if type(rest) is not int or rest > 0:
        padded = torch.cat([padded, padded.new_zeros((rest, *padded.shape[1:]))])
    padded = padded[:total_length]
    inside = is_inside(padded.size(0), lengths).view(padded.shape[:2] + (1,) * (padded.dim() - 2))
    padded = torch.where(inside, padded, torch.full((), padding_value, dtype=padded.dtype))
    return padded.transpose(0, 1) if batch_first else padded, lengths


def is_inside(steps, lengths):
    """Of each step of each sequence, time first."""
    return torch.arange(steps).unsqueeze(1) < lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side should be either 'left' or 'right', got {padding_side}")
    sequences = list(sequences)
    longest = max([sequence.size(0) for sequence in sequences])
    padded = []
    for sequence in sequences:
        rest = sequence.new_full((longest - sequence.size(0), *sequence.shape[1:]), padding_value)
        padded.append(torch.cat([sequence, rest] if padding_side == "right" else [rest, sequence]))
    return torch.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [sequence[: int(length)] for sequence, length in zip(padded_sequences, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    lengths = torch.as_tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
