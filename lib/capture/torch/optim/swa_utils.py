# Averages of a model's parameters over its training, which are then the model that is used.
import copy
import itertools

import torch
from torch.nn import Module

__all__ = ["AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn"]


def _of_lists(average):
    @torch.no_grad()
    def update(averaged, current, count):
        for a, b in zip(averaged, current):
            a.copy_(average(a, b, count))

    return update


def get_ema_avg_fn(decay=0.999):
    return lambda averaged, current, count: decay * averaged + (1 - decay) * current


def get_swa_avg_fn():
    return lambda averaged, current, count: averaged + (current - averaged) / (count + 1)


def get_ema_multi_avg_fn(decay=0.999):
    return _of_lists(lambda averaged, current, count: averaged.lerp(current, 1 - decay))


def get_swa_multi_avg_fn():
    return _of_lists(lambda averaged, current, count: averaged.lerp(current, 1 / (count + 1)))


class AveragedModel(Module):
    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        assert avg_fn is None or multi_avg_fn is None, "Only one of avg_fn and multi_avg_fn should be provided"
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _state(self, model):
        return list(itertools.chain(model.parameters(), model.buffers() if self.use_buffers else []))

    @torch.no_grad()
    def update_parameters(self, model):
        averaged, current = self._state(self.module), self._state(model)
        if self.n_averaged == 0:
            for a, b in zip(averaged, current):
                a.copy_(b)
        else:
            update = self.multi_avg_fn or _of_lists(self.avg_fn or get_swa_avg_fn())
            update(averaged, current, self.n_averaged)
        if not self.use_buffers:
            for a, b in zip(self.module.buffers(), model.buffers()):
                a.copy_(b)
        self.n_averaged += 1
