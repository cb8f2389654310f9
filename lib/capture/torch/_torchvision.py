# What torchvision's compiled extension computes and no block of opsets/libraries/torchvision.ops can say, and, in place of Python
# of torchvision's that asks how many boxes there are, what is right for any number of them.
import torch
from torch import _custom_operators, _placeholder
from torch._higher_order_ops import while_loop
from torch._operators import aten

_most_elements_together = 4000  # of the boxes of all classes, for which torchvision computes one nms


def _kept(boxes, scores, iou_threshold, is_apart):
    """The boxes that none of the kept ones with a better score covers, the best first; those that are apart cover no other.

    All are kept at first; in each round those go that a kept one ahead of them covers, and those come back of which none is left. After
    as many rounds as the longest chain of boxes that cover each other has links, nothing changes.
    """
    if boxes.dim() != 2 or boxes.shape[1] != 4:
        raise RuntimeError(f"boxes should be a 2d tensor of 4 columns, got {tuple(boxes.shape)}")
    if scores.dim() != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.dim()}d")
    order = scores.argsort(dim=0, descending=True, stable=True)
    left, top, right, bottom = boxes[order].unbind(1)
    area = (right - left) * (bottom - top)
    width = aten.minimum(right[:, None], right) - aten.maximum(left[:, None], left)
    height = aten.minimum(bottom[:, None], bottom) - aten.maximum(top[:, None], top)
    common = width.clamp(min=0) * height.clamp(min=0)
    # torchvision compares a double
    is_covered = (common / (area[:, None] + area - common)).double().gt(iou_threshold).tril(-1)
    if is_apart is not None:
        is_covered = is_covered & ~is_apart(order)
    kept = aten.ones_like(scores, dtype=is_covered.dtype)

    def body(kept, changed):
        now = (is_covered & kept).any(1).logical_not()
        return now, (now != kept).any()

    kept, _ = while_loop(lambda kept, changed: changed, body, (kept, kept.any()))
    return order[kept]


def nms(dets, scores, iou_threshold):
    return _kept(dets, scores, iou_threshold, None)


def batched_nms(boxes, scores, idxs, iou_threshold):
    """Boxes of different classes cover none of each other. As in torchvision few boxes are moved apart by class, which rounds them, and
    many are taken class by class; which it is may be for the run to say.
    """
    is_many = torch.scalar_tensor(boxes.numel(), dtype=torch.int64) > _most_elements_together
    end = torch.cat([boxes.flatten(), boxes.new_full((1,), -torch.inf)]).max() + 1  # of no box there is no max()
    offsets = torch.where(is_many, 0, idxs.to(boxes) * end)

    def is_apart(order):
        ordered = idxs[order]
        return (ordered[:, None] != ordered) & is_many

    return _kept(boxes + offsets[:, None], scores, iou_threshold, is_apart)


def _decode(given):
    def decode(self, rel_codes, boxes):
        count = sum(each.size(0) for each in boxes)
        if type(count) is int:
            return given(self, rel_codes, boxes)
        decoded = self.decode_single(rel_codes.flatten(1), torch.cat(boxes, dim=0))
        return decoded.reshape(count, decoded.shape[1] // 4, 4)

    return decode


def _complete_boxes(module):
    module.batched_nms = batched_nms


def _complete_detection(module):
    module.BoxCoder.decode = _decode(module.BoxCoder.decode)


_custom_operators.define("torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms)
_placeholder.completed["torchvision.ops.boxes"] = _complete_boxes
_placeholder.completed["torchvision.models.detection._utils"] = _complete_detection
