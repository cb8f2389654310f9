# Sequences of different lengths: padded, and back. Packed ones have sizes that data decide.
from collections import namedtuple

import torch
from torch import _placeholder
from torch._operators import aten

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
           "unpack_sequence", "unpad_sequence"]


class PackedSequence(namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    is_cuda = False

    def to(self, *args, **kwargs):
        return self._replace(data=self.data.to(*args, **kwargs))


def invert_permutation(permutation):
    if permutation is None:
        return None
    return torch.empty_like(permutation).scatter_(0, permutation, torch.arange(0, permutation.numel()))


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    raise _placeholder.Unsupported(
        "torch.nn.utils.rnn.pack_padded_sequence is not supported, since data decide the sizes of what it gives: run the layer on the padded "
        "batch and mask what it gives, y * (torch.arange(y.size(1)) < lengths[:, None]).unsqueeze(-1); the last output of each sequence is "
        "y[torch.arange(y.size(0)), lengths - 1]")


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    raise _placeholder.Unsupported("torch.nn.utils.rnn.pad_packed_sequence is not supported, since nothing can be packed")


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    if isinstance(sequences, torch.Tensor):
        sequences = sequences.unbind(0)
    return aten.pad_sequence(list(sequences), batch_first, padding_value, padding_side)


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
