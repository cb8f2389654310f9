# Losses.
import math

import torch
from torch._operators import aten

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "linear_cross_entropy", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]

_codes = {"none": 0, "mean": 1, "sum": 2}


def _code(reduction, size_average=None, reduce=None):
    """ATen's number of a reduction; the two older switches, where given, decide."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if reduction not in _codes:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _codes[reduction]


def _reduced(loss, code):
    return loss if code == 0 else loss.mean() if code == 1 else loss.sum()


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    return aten.cross_entropy_loss(input, target, weight, _code(reduction, size_average, reduce), ignore_index,
                                   label_smoothing)


def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None,
                         label_smoothing=0.0, options=None):
    """The loss of logits that a linear layer makes of `input`; `options` say how to save memory, which changes no number."""
    fits = input.dim() == 2 and linear_weight.dim() >= 2 or input.dim() == 1 and linear_weight.dim() == 2
    if not fits or input.shape[-1] != linear_weight.shape[-1]:
        raise ValueError("linear_cross_entropy takes an input (N, in) and a weight (classes, ..., in), or (in) and (classes, in), not "
                         f"{tuple(input.shape)} and {tuple(linear_weight.shape)}")
    if target.is_floating_point() and ignore_index is not None:
        raise ValueError("ignore_index has no meaning where the target holds probabilities")
    classes, inputs = linear_weight.shape[0], linear_weight.shape[-1]
    logits = aten.linear(input, linear_weight.reshape(-1, inputs), None if linear_bias is None else linear_bias.reshape(-1))
    logits = logits.reshape(*input.shape[:-1], classes, *linear_weight.shape[1:-1])
    return cross_entropy(logits, target, weight, ignore_index=-100 if ignore_index is None else ignore_index, reduction=reduction,
                         label_smoothing=label_smoothing)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    return aten.nll_loss_nd(input, target, weight, _code(reduction, size_average, reduce), ignore_index)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    if weight is not None:
        weight = weight.expand(torch.broadcast_shapes(target.shape, weight.shape))
    return aten.binary_cross_entropy(input, target, weight, _code(reduction, size_average, reduce))


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean",
                                     pos_weight=None):
    return aten.binary_cross_entropy_with_logits(input, target, weight, pos_weight, _code(reduction, size_average, reduce))


def _pairwise(operator, input, target, weight, code, *options):
    """A loss of pairs. Its weighted mean is over the sum of the weights, but Huber's over the number of values, as PyTorch has it."""
    if weight is not None and weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    input, target = torch.broadcast_tensors(input, target)
    if weight is None:
        return getattr(aten, operator)(input, target, code, *options)
    loss = getattr(aten, operator)(input, target, 0, *options) * weight
    if code == 1:
        return loss.mean() if operator == "huber_loss" else loss.sum() / weight.sum()
    return loss if code == 0 else loss.sum()


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    return _pairwise("mse_loss", input, target, weight, _code(reduction, size_average, reduce))


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    return _pairwise("l1_loss", input, target, weight, _code(reduction, size_average, reduce))


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    if beta == 0.0:
        return l1_loss(input, target, size_average, reduce, reduction)
    return _pairwise("smooth_l1_loss", input, target, None, _code(reduction, size_average, reduce), beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    return _pairwise("huber_loss", input, target, weight, _code(reduction), delta)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    if reduction == "batchmean":
        total = aten.kl_div(input, target, 2, log_target=log_target)
        return total / input.size(0) if input.dim() else total
    return aten.kl_div(input, target, _code(reduction, size_average, reduce), log_target=log_target)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    return aten.soft_margin_loss(input, target, _code(reduction, size_average, reduce))


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    return aten.multilabel_margin_loss(input, target, _code(reduction, size_average, reduce))


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    return aten.multi_margin_loss(input, target, p, margin, weight, _code(reduction, size_average, reduce))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    loss = -(target * aten.log_sigmoid(input) + (1 - target) * aten.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1), _code(reduction, size_average, reduce))


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    return aten.hinge_embedding_loss(input, target, margin, _code(reduction, size_average, reduce))


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return aten.cosine_embedding_loss(input1, input2, target, margin, _code(reduction, size_average, reduce))


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return aten.margin_ranking_loss(input1, input2, target, margin, _code(reduction, size_average, reduce))


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None,
                        reduction="mean"):
    return aten.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, _code(reduction, size_average, reduce))


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    code = _code(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = [t.dim() for t in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
                           "anchor {}D, positive {}D, and negative {}D inputs".format(*ranks))
    distance = distance_function or aten.pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return _reduced(torch.clamp_min(margin + near - far, 0), code)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    return aten.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _code(reduction), zero_infinity)


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    return aten.poisson_nll_loss(input, target, log_input, full, eps, _code(reduction, size_average, reduce))


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    if not isinstance(var, torch.Tensor):
        var = var * torch.ones_like(input)
    if var.dim() == input.dim() - 1:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, _code(reduction))
