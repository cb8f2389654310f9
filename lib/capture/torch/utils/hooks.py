# RemovableHandle: what registering a hook returns.
import itertools
import weakref
from collections import OrderedDict

__all__ = ["RemovableHandle", "warn_if_has_hooks", "unserializable_hook"]


class RemovableHandle:
    _ids = itertools.count()

    def __init__(self, hooks_dict, *, extra_dict=None):
        extra = extra_dict if isinstance(extra_dict, list) else [extra_dict] if extra_dict is not None else []
        self._dictionaries = [weakref.ref(d) for d in [hooks_dict, *extra]]
        self.id = next(self._ids)

    def remove(self):
        for reference in self._dictionaries:
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        return self.id

    def __setstate__(self, state):
        self.id = state
        self._dictionaries = [weakref.ref(OrderedDict())]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def unserializable_hook(function):
    return function


def warn_if_has_hooks(tensor):
    pass
