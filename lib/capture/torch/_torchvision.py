# What torchvision's compiled extension computes and no block of opsets/libraries/torchvision.ops can say.
from torch import _custom_operators
from torch._higher_order_ops import while_loop
from torch._operators import aten


def nms(dets, scores, iou_threshold):
    """The boxes that none of the kept ones with a better score covers, the best first.

    All are kept at first; in each round those go that a kept one ahead of them covers, and those come back of which none is left. After
    as many rounds as the longest chain of boxes that cover each other has links, nothing changes.
    """
    if dets.dim() != 2 or dets.shape[1] != 4:
        raise RuntimeError(f"boxes should be a 2d tensor of 4 columns, got {tuple(dets.shape)}")
    if scores.dim() != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.dim()}d")
    order = scores.argsort(dim=0, descending=True, stable=True)
    left, top, right, bottom = dets[order].unbind(1)
    area = (right - left) * (bottom - top)
    width = aten.minimum(right[:, None], right) - aten.maximum(left[:, None], left)
    height = aten.minimum(bottom[:, None], bottom) - aten.maximum(top[:, None], top)
    common = width.clamp(min=0) * height.clamp(min=0)
    # torchvision compares a double
    is_covered = (common / (area[:, None] + area - common)).double().gt(iou_threshold).tril(-1)
    kept = aten.ones_like(scores, dtype=is_covered.dtype)

    def body(kept, changed):
        now = (is_covered & kept).any(1).logical_not()
        return now, (now != kept).any()

    kept, _ = while_loop(lambda kept, changed: changed, body, (kept, kept.any()))
    return order[kept]


_custom_operators.define("torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms)
