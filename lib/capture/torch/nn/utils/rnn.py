# Sequences of different lengths: padded, packed, and back.
from collections import namedtuple

import torch
from torch import _placeholder

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
           "unpack_sequence", "unpad_sequence"]


class PackedSequence(namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """Here the padded batch, time first, and its lengths: how many rows a packed one has, only data say. Layers take it as it is."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        raise _placeholder.Unsupported("a PackedSequence cannot be made of its parts: pad_packed_sequence, change that, and "
                                       "pack_padded_sequence again")

    @classmethod
    def of_padded(cls, padded, lengths):
        made = super().__new__(cls, None, None, None, None)
        made.padded, made.lengths = padded, lengths
        return made

    def _refuse(self, *_):
        raise _placeholder.Unsupported("what is in a PackedSequence cannot be looked at, since data decide its sizes: pad_packed_sequence "
                                       "gives it as a tensor")

    data = batch_sizes = sorted_indices = unsorted_indices = property(_refuse)
    __getitem__ = __iter__ = _refuse
    is_cuda = False

    def to(self, *args, **kwargs):
        return self.of_padded(self.padded.to(*args, **kwargs), self.lengths)


def invert_permutation(permutation):
    if permutation is None:
        return None
    return torch.empty_like(permutation).scatter_(0, permutation, torch.arange(0, permutation.numel()))


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """The order of the lengths plays no part here: what PyTorch refuses as not sorted is computed."""
    lengths = torch.as_tensor(lengths, dtype=torch.int64)
    return PackedSequence.of_padded(input.transpose(0, 1) if batch_first else input, lengths)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    padded, lengths = sequence.padded, sequence.lengths
    if total_length is None:  # the longest sequence says
        total_length = lengths.max().item()
        torch._check(total_length <= padded.size(0))
    rest = max(total_length - padded.size(0), 0)
    if not isinstance(rest, int) or rest > 0:
        padded = torch.cat([padded, padded.new_zeros((rest, *padded.shape[1:]))])
    padded = padded[:total_length]
    inside = is_inside(padded, lengths).view(padded.shape[:2] + (1,) * (padded.dim() - 2))
    padded = torch.where(inside, padded, torch.full((), padding_value, dtype=padded.dtype))
    return padded.transpose(0, 1) if batch_first else padded, lengths


def is_inside(padded, lengths):
    """Of each step of each sequence, time first."""
    return torch.arange(padded.size(0)).unsqueeze(1) < lengths


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
