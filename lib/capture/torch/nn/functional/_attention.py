# Multi-head attention as torch.nn.MultiheadAttention computes it: projection, scaled dot products, output projection.
import math

import torch
from torch._operators import aten

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if hasattr(attn_mask, "mask_or_causal"):  # torch.nn.attention.bias
        attn_mask, is_causal = attn_mask.mask_or_causal(is_causal)
    if attn_mask is not None and is_causal:  # both hold
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        attn_mask = attn_mask & seen if attn_mask.dtype == torch.bool else attn_mask.masked_fill(~seen, float("-inf"))
        is_causal = False
    return aten.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def _none_or_dtype(input):
    return None if input is None else input.dtype


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask to be added: floating masks as they are, boolean ones with -inf where they are true."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype != torch.bool:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    return torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _in_projection_packed(q, k, v, w, b=None):
    """Queries, keys and values by one product where they are of one tensor."""
    width = q.size(-1)
    if k is v:
        if q is k:
            projected = aten.linear(q, w, b)
            projected = projected.unflatten(-1, (3, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return projected[0], projected[1], projected[2]
        w_q, w_kv = w.split([width, width * 2])
        b_q, b_kv = (None, None) if b is None else b.split([width, width * 2])
        query = aten.linear(q, w_q, b_q)
        both = aten.linear(k, w_kv, b_kv)
        both = both.unflatten(-1, (2, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return query, both[0], both[1]
    w_q, w_k, w_v = w.chunk(3)
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return aten.linear(q, w_q, b_q), aten.linear(k, w_k, b_k), aten.linear(v, w_v, b_v)


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    return aten.linear(q, w_q, b_q), aten.linear(k, w_k, b_k), aten.linear(v, w_v, b_v)


def _check_ranks(query, key, value, key_padding_mask, attn_mask):
    if query.dim() not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor")
    for name, tensor, rank in (("key", key, query.dim()), ("value", value, query.dim()),
                               ("key_padding_mask", key_padding_mask, query.dim() - 1)):
        if tensor is not None and tensor.dim() != rank:
            raise AssertionError(f"For a {query.dim()}-D query, expected {name} to be {rank}-D but found {tensor.dim()}-D")
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(f"attn_mask should be 2-D or 3-D but is {attn_mask.dim()}-D")


def _with_one_more_key(attn_mask, key_padding_mask):
    return tuple(None if mask is None else aten.pad(mask, (0, 1)) for mask in (attn_mask, key_padding_mask))


def multi_head_attention_forward(
        query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p,
        out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
        use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
        average_attn_weights=True, is_causal=False):
    _check_ranks(query, key, value, key_padding_mask, attn_mask)
    is_batched = query.dim() == 3
    if not is_batched:
        one = query
        query = query.unsqueeze(1)
        key = query if key is one else key.unsqueeze(1)
        value = key if value is key else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    target_length, batch, width = query.shape
    head_width = width // num_heads
    if head_width * num_heads != width or width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check} in {num_heads} heads, but got {width}")

    key_padding_mask = _canonical_mask(key_padding_mask, "key_padding_mask", None, "", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                           "`generate_square_subsequent_mask` to create this mask.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the hint says as much
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype)
        if key_padding_mask is not None:
            is_causal = False  # the merged mask is causal no longer

    if use_separate_proj_weight:
        biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = _in_projection(query, key, value, q_proj_weight, k_proj_weight, v_proj_weight, *biases)
    else:
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None and attn_mask.dim() == 2:
        attn_mask = attn_mask.unsqueeze(0)
    if bias_k is not None and bias_v is not None:
        k = torch.cat([k, bias_k.repeat(1, batch, 1)])
        v = torch.cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = _with_one_more_key(attn_mask, key_padding_mask)

    # Heads become part of the batch: [batch * heads, length, width of a head].
    rows = batch * num_heads
    q = q.view(target_length, rows, head_width).transpose(0, 1)
    k = k.view(k.shape[0], rows, head_width).transpose(0, 1) if static_k is None else static_k
    v = v.view(v.shape[0], rows, head_width).transpose(0, 1) if static_v is None else static_v
    if add_zero_attn:
        k = torch.cat([k, torch.zeros((rows, 1, head_width), dtype=k.dtype)], dim=1)
        v = torch.cat([v, torch.zeros((rows, 1, head_width), dtype=v.dtype)], dim=1)
        attn_mask, key_padding_mask = _with_one_more_key(attn_mask, key_padding_mask)
    source_length = k.size(1)
    if key_padding_mask is not None:
        padding = key_padding_mask.view(batch, 1, 1, source_length).expand(-1, num_heads, -1, -1)
        padding = padding.reshape(rows, 1, source_length)
        attn_mask = padding if attn_mask is None else attn_mask + padding
    dropout_p = dropout_p if training else 0.0

    if need_weights:
        scaled = q * math.sqrt(1.0 / float(head_width))
        if attn_mask is not None:
            weights = torch.baddbmm(attn_mask, scaled, k.transpose(-2, -1))
        else:
            weights = torch.bmm(scaled, k.transpose(-2, -1))
        weights = aten.softmax(weights, -1)
        if dropout_p > 0.0:
            weights = aten.dropout(weights, dropout_p, True)
        mixed = torch.bmm(weights, v).transpose(0, 1).reshape(target_length * batch, width)
        weights = weights.view(batch, num_heads, target_length, source_length)
        if average_attn_weights:
            weights = weights.mean(dim=1)
    else:
        if attn_mask is not None:
            shared = type(attn_mask.size(0)) is int and attn_mask.size(0) == 1
            attn_mask = attn_mask.unsqueeze(0) if shared else attn_mask.view(batch, num_heads, -1, source_length)
        q = q.view(batch, num_heads, target_length, head_width)
        k = k.view(batch, num_heads, source_length, head_width)
        v = v.view(batch, num_heads, source_length, head_width)
        mixed = aten.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
        mixed = mixed.permute(2, 0, 1, 3).reshape(batch * target_length, width)
        weights = None
    output = aten.linear(mixed, out_proj_weight, out_proj_bias)
    output = output.view(target_length, batch, output.size(1))
    if not is_batched:
        output = output.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return output, weights
