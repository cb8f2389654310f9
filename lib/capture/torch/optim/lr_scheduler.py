# Schedules of an optimizer's learning rate, which files make beside their model: they hold what they are given, and do not step.
from torch import _placeholder


class LRScheduler:
    def __init__(self, optimizer, *args, **options):
        self.optimizer = optimizer
        self.last_epoch = 0
        self.base_lrs = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])

    def get_last_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)

    step = _placeholder.refused("a learning rate's step", "no program is trained")


class ChainedScheduler(LRScheduler):
    def __init__(self, schedulers, optimizer=None):
        super().__init__(optimizer or schedulers[0].optimizer)


_LRScheduler = LRScheduler
for _name in ("ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiplicativeLR",
              "MultiStepLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR"):
    globals()[_name] = type(_name, (LRScheduler,), {"__module__": __name__})
