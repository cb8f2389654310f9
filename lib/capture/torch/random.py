# torch.random: the default generator's state.
import contextlib
from collections.abc import Generator  # PyTorch's file imports it, and annotations name it by mistake

import _atenon

from torch._functional import get_rng_state, initial_seed, manual_seed, seed, set_rng_state

default_generator = _atenon.default_generator


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, **options):
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
