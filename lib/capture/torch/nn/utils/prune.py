# torch.nn.utils.prune: a parameter as the product of its origin and a mask, made before each call. What is pruned again loses a part
# of what is left; a method of the user's own subclasses BasePruningMethod.
import torch
from torch.nn.utils.convert_parameters import parameters_to_vector


def _others(t, dim):
    return [axis for axis in range(t.dim()) if axis != dim % t.dim()]


class BasePruningMethod:
    """A subclass says what is 0 in compute_mask(t, default_mask); PRUNING_TYPE is unstructured, structured (along `dim`) or global."""

    _tensor_name = None

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module):
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        method = cls(*args, **kwargs)
        method._tensor_name = name
        key, before = _hook(module, name)
        if before is not None:
            del module._forward_pre_hooks[key]
            if not isinstance(before, PruningContainer):
                before = PruningContainer(before)
            before.add_pruning_method(method)
            method = before
        parameter = getattr(module, name)
        scores = (parameter if importance_scores is None else importance_scores).detach()
        if scores.shape != parameter.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}, "
                                 f"got {scores.shape} vs {parameter.shape}")
        if before is None:
            default_mask = torch.ones_like(parameter.detach())
            module.register_parameter(name + "_orig", module._parameters.pop(name))
        else:
            default_mask = getattr(module, name + "_mask").detach().clone()
        module.register_buffer(name + "_mask", method.compute_mask(scores, default_mask=default_mask))
        method(module, ())
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, default_mask=torch.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module):
        name = self._tensor_name
        pruned = self.apply_mask(module).detach()
        module.__dict__.pop(name, None)
        original = module._parameters.pop(name + "_orig")
        original.data = pruned
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods in turn: the last one sees what those before it have left."""

    def __init__(self, *methods):
        self._pruning_methods = ()
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        self._tensor_name = method._tensor_name
        self._pruning_methods += (method,)

    def compute_mask(self, t, default_mask):
        method = self._pruning_methods[-1]
        if method.PRUNING_TYPE == "unstructured":
            left = default_mask == 1
        else:
            left = [slice(None)] * t.dim()
            if method.PRUNING_TYPE == "structured":
                left[method.dim] = default_mask.sum(_others(t, method.dim)) != 0
            left = tuple(left)
        mask = default_mask.to(t.dtype, copy=True)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(mask.dtype)
        return mask

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, index):
        return self._pruning_methods[index]


class Identity(BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask


class CustomFromMask(BasePruningMethod):
    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        return default_mask * self.mask.to(default_mask.dtype)


class _Amount(BasePruningMethod):
    """Of `amount` values, or of a part of them, those with the least score go."""

    def __init__(self, amount, dim=-1):
        self.amount, self.dim = amount, dim

    def _count(self, size):
        return self.amount if isinstance(self.amount, int) else round(self.amount * size)


class _Unstructured(_Amount):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        if count := self._count(t.nelement()):
            mask.view(-1)[torch.topk(self._scores(t).view(-1), k=count, largest=self.largest).indices] = 0
        return mask


class _Structured(_Amount):
    PRUNING_TYPE = "structured"

    def compute_mask(self, t, default_mask):
        count = self._count(t.shape[self.dim])
        if not count:
            return default_mask
        kept = torch.topk(self._scores(t), k=t.shape[self.dim] - count).indices
        return torch.zeros_like(t).index_fill(self.dim, kept, 1) * default_mask


class RandomUnstructured(_Unstructured):
    largest = True

    def _scores(self, t):
        return torch.rand_like(t)


class L1Unstructured(_Unstructured):
    largest = False

    def _scores(self, t):
        return t.abs()


class RandomStructured(_Structured):
    def _scores(self, t):
        return torch.rand(t.shape[self.dim])


class LnStructured(_Structured):
    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t):
        return torch.norm(t, p=self.n, dim=_others(t, self.dim))


def _hook(module, name):
    return next(((key, hook) for key, hook in module._forward_pre_hooks.items()
                 if isinstance(hook, BasePruningMethod) and hook._tensor_name == name), (None, None))


def _function(method):
    def prune(module, name, *args, **kwargs):
        method.apply(module, name, *args, **kwargs)
        return module

    return prune


identity, custom_from_mask = _function(Identity), _function(CustomFromMask)
random_unstructured, l1_unstructured = _function(RandomUnstructured), _function(L1Unstructured)
random_structured, ln_structured = _function(RandomStructured), _function(LnStructured)


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError(f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
                        f"Found method {pruning_method} of type {pruning_method.PRUNING_TYPE}")
    parameters = [(module, name, getattr(module, name).detach()) for module, name in parameters]
    given = importance_scores or {}
    scores = parameters_to_vector([given.get((module, name), parameter) for module, name, parameter in parameters])
    before = parameters_to_vector([getattr(module, name + "_mask", torch.ones_like(parameter)) for module, name, parameter in parameters])
    mask = PruningContainer(pruning_method(**kwargs)).compute_mask(scores, default_mask=before)
    for (module, name, parameter), part in zip(parameters, mask.split([parameter.nelement() for _, _, parameter in parameters])):
        custom_from_mask(module, name, mask=part.view_as(parameter))


def remove(module, name):
    key, hook = _hook(module, name)
    if hook is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module):
    return any(isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values())
