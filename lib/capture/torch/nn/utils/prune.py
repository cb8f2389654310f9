# torch.nn.utils.prune: a parameter as the product of its origin and a mask, made before each call; a parameter is pruned once.
import torch
from torch import _placeholder

__all__ = ["custom_from_mask", "identity", "is_pruned", "l1_unstructured", "ln_structured", "random_structured", "random_unstructured",
           "remove"]


class _Mask:
    def __init__(self, name):
        self.name = name

    def apply_mask(self, module):
        return getattr(module, self.name + "_mask").to(getattr(module, self.name + "_orig").dtype) * getattr(module, self.name + "_orig")

    def __call__(self, module, inputs):
        setattr(module, self.name, self.apply_mask(module))


def _hook(module, name):
    return next(((key, hook) for key, hook in module._forward_pre_hooks.items() if isinstance(hook, _Mask) and hook.name == name), None)


def custom_from_mask(module, name, mask):
    if _hook(module, name):
        raise _placeholder.Unsupported(f"{name} is pruned already, and pruning it again is not supported", "torch.nn.utils.prune")
    hook = _Mask(name)
    original = module._parameters.pop(name)
    module.register_parameter(name + "_orig", original)
    module.register_buffer(name + "_mask", mask.to(original.dtype))
    setattr(module, name, hook.apply_mask(module))
    module.register_forward_pre_hook(hook)
    return module


def _count(amount, size):
    return amount if isinstance(amount, int) else round(amount * size)


def _without(module, name, scores, amount, largest):
    mask = torch.ones_like(getattr(module, name))
    count = _count(amount, mask.nelement())
    if count:
        mask.view(-1)[torch.topk(scores.view(-1), k=count, largest=largest).indices] = 0
    return custom_from_mask(module, name, mask)


def _keeping(module, name, scores, amount, dim):
    mask = torch.zeros_like(getattr(module, name))
    size = mask.shape[dim]
    kept = torch.topk(scores, k=size - _count(amount, size), largest=True).indices
    return custom_from_mask(module, name, mask.index_fill(dim, kept, 1))


def identity(module, name):
    return custom_from_mask(module, name, torch.ones_like(getattr(module, name)))


def l1_unstructured(module, name, amount, importance_scores=None):
    scores = getattr(module, name) if importance_scores is None else importance_scores
    return _without(module, name, scores.detach().abs(), amount, largest=False)


def random_unstructured(module, name, amount):
    return _without(module, name, torch.rand_like(getattr(module, name)), amount, largest=True)


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    scores = (getattr(module, name) if importance_scores is None else importance_scores).detach()
    others = [axis for axis in range(scores.dim()) if axis != dim % scores.dim()]
    return _keeping(module, name, torch.norm(scores, p=n, dim=others), amount, dim)


def random_structured(module, name, amount, dim):
    return _keeping(module, name, torch.rand(getattr(module, name).shape[dim]), amount, dim)


def remove(module, name):
    key, hook = _hook(module, name) or (None, None)
    if hook is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    pruned = hook.apply_mask(module).detach()
    original = module._parameters.pop(name + "_orig")
    original.data = pruned
    del module._buffers[name + "_mask"], module._forward_pre_hooks[key]
    if name in module.__dict__:
        delattr(module, name)
    setattr(module, name, original)
    return module


def is_pruned(module):
    return any(isinstance(hook, _Mask) for part in module.modules() for hook in part._forward_pre_hooks.values())
