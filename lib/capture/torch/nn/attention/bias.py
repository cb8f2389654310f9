# torch.nn.attention.bias: causal masks by their sizes, as attn_mask of scaled_dot_product_attention. A mask that starts at the upper
# left corner is is_causal; one that ends at the lower right is written out.
import enum

import torch

__all__ = ["causal_lower_right", "causal_upper_left", "CausalBias", "CausalVariant"]


class CausalVariant(enum.IntEnum):
    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias:
    """No tensor, unlike PyTorch's; _materialize gives that."""

    def __init__(self, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        self.shape = torch.Size((seq_len_q, seq_len_kv))

    def _offset(self):
        return 0 if self.variant == CausalVariant.UPPER_LEFT else self.seq_len_kv - self.seq_len_q

    def _materialize(self, device=None):
        return torch.ones(self.seq_len_q, self.seq_len_kv, dtype=torch.bool, device=device).tril(self._offset())

    def mask_or_causal(self, is_causal):
        """What scaled_dot_product_attention takes in its place: attn_mask and is_causal."""
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        offset = self._offset()
        if type(offset) is int and offset == 0:
            return None, True
        return self._materialize(), False


def _of(variant, size):
    if len(size) != 2:
        raise AssertionError(f"causal_{variant.name.lower()} only supports 2D tensors")
    return CausalBias(variant, *size)


def causal_upper_left(*size):
    return _of(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size):
    return _of(CausalVariant.LOWER_RIGHT, size)
