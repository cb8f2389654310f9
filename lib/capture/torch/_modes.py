# Switches that code turns on and off around itself: gradients, autocast, inference, default types and devices, determinism.
#
# We never differentiate, so a grad mode is a flag that only has to read back as PyTorch's would. Each switch works as a
# class, an instance, and a bare or called decorator.
import functools

import _atenon

from torch import _dtypes


_generator_flag = 0x20  # inspect.CO_GENERATOR; importing inspect would take longer than all of this package


class _Switch:
    """A context manager that is a decorator too; subclasses define __enter__ and __exit__."""

    def __call__(self, function):
        if isinstance(function, type):
            function.__init__ = self(function.__init__)
            return function
        if getattr(function, "__code__", None) and function.__code__.co_flags & _generator_flag:
            @functools.wraps(function)
            def generate(*args, **kwargs):
                with self._clone():
                    yield from function(*args, **kwargs)
            return generate

        @functools.wraps(function)
        def call(*args, **kwargs):
            with self._clone():
                return function(*args, **kwargs)
        return call

    def _clone(self):
        return type(self)()


class _GradSwitch(_Switch):
    mode = False

    def __new__(cls, function=None):
        switch = super().__new__(cls)
        return switch if function is None else switch(function)

    def __enter__(self):
        self.before = _atenon.is_grad_enabled()
        _atenon.set_grad_enabled(self.mode)

    def __exit__(self, *exception):
        _atenon.set_grad_enabled(self.before)


class no_grad(_GradSwitch):
    __module__ = "torch"


class enable_grad(_GradSwitch):
    __module__ = "torch"
    mode = True


class set_grad_enabled(_Switch):
    __module__ = "torch"

    def __init__(self, mode):
        self.before = _atenon.is_grad_enabled()
        self.mode = mode
        _atenon.set_grad_enabled(mode)

    def __call__(self, function):
        _atenon.set_grad_enabled(self.before)  # as a decorator it acts in the call only
        return super().__call__(function)

    def _clone(self):
        return set_grad_enabled(self.mode)

    def __enter__(self):
        _atenon.set_grad_enabled(self.mode)

    def __exit__(self, *exception):
        _atenon.set_grad_enabled(self.before)


class inference_mode(_Switch):
    __module__ = "torch"

    def __new__(cls, mode=True):
        switch = super().__new__(cls)
        if callable(mode):
            switch.mode = True
            return switch(mode)
        switch.mode = mode
        return switch

    def _clone(self):
        return inference_mode(self.mode)

    def __enter__(self):
        self.before = _atenon.is_grad_enabled()
        if self.mode:
            _atenon.set_grad_enabled(False)

    def __exit__(self, *exception):
        _atenon.set_grad_enabled(self.before)


class autocast(_Switch):
    """Casts what operators take, by the policy of _autocast.py; for other devices than the CPU there is nothing to cast."""

    __module__ = "torch.amp.autocast_mode"

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=None):
        self.device = device_type
        self.fast_dtype = dtype if dtype is not None else get_autocast_dtype(device_type)
        self._enabled = enabled

    def _clone(self):
        return autocast(self.device, self.fast_dtype, self._enabled)

    def __enter__(self):
        self._before = dict(_autocast)
        if self.device == "cpu":
            set_autocast_dtype("cpu", self.fast_dtype)
            set_autocast_enabled("cpu", self._enabled)
        return self

    def __exit__(self, *exception):
        if self.device == "cpu":
            set_autocast_dtype("cpu", self._before["dtype"])
            set_autocast_enabled("cpu", self._before["enabled"])
        return False


_autocast = {"enabled": False, "dtype": _dtypes.named["bfloat16"]}


def is_autocast_enabled(device_type="cuda"):
    return device_type == "cpu" and _autocast["enabled"]


def is_autocast_cpu_enabled():
    return is_autocast_enabled("cpu")


def set_autocast_enabled(device_type, enabled=None):
    if device_type != "cpu":
        return  # also the older form, of CUDA: set_autocast_enabled(True)
    from torch._autocast import operator_call

    _autocast["enabled"] = bool(enabled)
    _atenon.set_autocast(operator_call(_autocast["dtype"]) if enabled else None)


def set_autocast_dtype(device_type, dtype):
    if device_type == "cpu":
        _autocast["dtype"] = dtype


def get_autocast_dtype(device_type):
    return _autocast["dtype"] if device_type == "cpu" else _dtypes.named["float16"]


def get_autocast_gpu_dtype():
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype():
    return get_autocast_dtype("cpu")


def is_autocast_cache_enabled():
    return True


def is_inference_mode_enabled():
    return False


class Transform:
    """While torch.vmap calls a function, on one example."""

    def __enter__(self):
        _state["transforms"] += 1

    def __exit__(self, *exception):
        _state["transforms"] -= 1


def are_transforms_active():
    return _state["transforms"] > 0


_state = {"dtype": _dtypes.named["float32"], "deterministic": False, "threads": 1, "transforms": 0}


def get_default_dtype():
    return _state["dtype"]


def set_default_dtype(element_type):
    if not element_type.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _atenon.set_default_dtype(element_type)  # refuses what no tensor has
    _state["dtype"] = element_type


def set_default_tensor_type(type):
    for name, legacy in _dtypes.legacy_names.items():
        if getattr(type, "__name__", str(type)).endswith(legacy):
            return set_default_dtype(_dtypes.named[name])
    raise TypeError(f"{type} is no tensor type")


_generators_left = []


def enter_device(device):
    """Tensors of the meta device have no numbers: what is drawn for them leaves the generator as it was."""
    generator = _atenon.default_generator
    _generators_left.append(generator.get_state() if device.type == "meta" else None)


def exit_device():
    state = _generators_left.pop()
    if state is not None:
        _atenon.default_generator.set_state(state)


def get_default_device():
    return _atenon.device("cpu")


def set_default_device(device):
    if device is not None:
        _atenon.check_device(device)


def use_deterministic_algorithms(mode, *, warn_only=False):
    _state["deterministic"] = bool(mode)


def are_deterministic_algorithms_enabled():
    return _state["deterministic"]


def is_deterministic_algorithms_warn_only_enabled():
    return False


def get_deterministic_debug_mode():
    return 0


def get_num_threads():
    return _state["threads"]


def set_num_threads(count):
    _state["threads"] = count


def get_num_interop_threads():
    return 1


def set_num_interop_threads(count):
    pass


def get_float32_matmul_precision():
    return "highest"


def set_float32_matmul_precision(precision):
    pass


def set_flush_denormal(mode):
    return False


def set_printoptions(**options):
    pass
