# What distributions of libraries take from PyTorch's own.
from functools import cached_property as lazy_property

import torch
from torch.distributions.distribution import broadcast_all, inside as clamp_probs


def logits_to_probs(logits, is_binary=False):
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, dim=-1)


def probs_to_logits(probs, is_binary=False):
    logarithm = clamp_probs(probs).log()
    return logarithm - torch.log1p(-clamp_probs(probs)) if is_binary else logarithm


def _sum_rightmost(value, dim):
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1) if dim else value
