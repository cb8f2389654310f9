# The scaler of gradients that training scripts make, torch.amp's and torch.cuda.amp's.
from torch import _placeholder


class GradScaler:
    """Holds nothing, since there are no gradients here."""

    def __init__(self, *args, enabled=True, **options):
        self._enabled = enabled

    def is_enabled(self):
        return self._enabled

    def scale(self, outputs):
        return outputs

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass

    step = update = unscale_ = _placeholder.refused("a scaler's step", "no program is trained")
