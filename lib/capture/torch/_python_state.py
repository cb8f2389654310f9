# What Python's own objects hold: modules of a model, their classes, and the lists, dicts and other objects that they lead to.
# A program has none of it: what forward changes there is told of, and put back when the model is captured.
import collections
import dis
import operator
import types

from torch._tensor import Tensor

_most_steps = 4  # from a module
_most_entries = 1000  # of what is looked into: not a vocabulary
_most_holders = 10_000  # beside what modules have of their own
_missing = object()
_sequences = (list, tuple, collections.deque)
_opaque = (Tensor, type, types.FunctionType, types.ModuleType)


# Of types, not of values, whose __class__ and __dict__ may be anything.
def _is(value, kinds):
    return issubclass(type(value), kinds)


def _entries(owner):
    if _is(owner, dict):
        return dict.copy(owner)
    return dict(enumerate(owner)) if _is(owner, _sequences) else dict(vars(owner))


def _holds_entries(value):
    return _is(value, (dict, *_sequences)) or type(value).__dictoffset__ != 0 and not _is(value, _opaque)


def _differences(name, before, after, steps):
    """(name, before, after) of the leaves of what is another object, those that were not there only where they are tensors."""
    if steps > 0 and _is(after, (dict, *_sequences)) and len(after) <= _most_entries:
        held = _entries(before) if _is(before, (dict, *_sequences)) else {}
        for key, value in _entries(after).items():
            if held.get(key, _missing) is not value:
                yield from _differences(f"{name}[{key!r}]", held.get(key, _missing), value, steps - 1)
    elif before is not _missing or _is(after, Tensor):
        yield name, None if before is _missing else before, after


class _Holder:
    """A place that holds values by name, key or number. `module` leads to it by `attribute`, unless it is the module's own."""

    def __init__(self, owner, path, module, attribute=None, steps=0):
        self.owner, self.path, self.module, self.attribute, self.steps = owner, path, module, attribute, steps
        self.before = _entries(owner)
        self.has_attributes = not _is(owner, (dict, *_sequences))
        self.is_registry = steps == 1 and attribute in ("_parameters", "_buffers")

    def name(self, key):
        if self.is_registry:
            return self.path.removesuffix(self.attribute) + key
        return f"{self.path}.{key}".lstrip(".") if self.has_attributes else f"{self.path}[{key!r}]"

    def inner(self):
        if self.steps == _most_steps or len(self.before) > _most_entries:
            return
        for key, value in self.before.items():
            if _holds_entries(value):
                yield value, self.name(key), self.module, self.attribute or key, self.steps + 1

    def changes(self):
        now = _entries(self.owner)
        for key, after in now.items():
            before = self.before.get(key, _missing)
            if before is _missing and self.has_attributes:
                before = getattr(type(self.owner), key, _missing)
            if before is not after:
                for difference in _differences(self.name(key), before, after, _most_steps - self.steps):
                    yield self.change(key, *difference)
        if self.is_registry:
            for key in self.before.keys() - now.keys():
                yield self.change(key, self.name(key), self.before[key], None)
        elif _is(self.owner, _sequences) and len(now) != len(self.before):
            yield self.change(None, f"len({self.path})", len(self.before), len(now))

    def change(self, key, name, before, after):
        is_own = self.attribute is None or self.is_registry
        place = self.name(key) if is_own or self.has_attributes else self.path
        return self.module, key if is_own else self.attribute, is_own, self.is_registry, place, name, before, after

    def restore(self):
        owner, before, now = self.owner, self.before, _entries(self.owner)
        is_same = len(now) == len(before) and all(map(operator.is_, now.values(), before.values()))
        if is_same and (_is(owner, _sequences) or all(map(operator.is_, now, before))):
            return
        if _is(owner, type):
            for key in now.keys() - before.keys():
                delattr(owner, key)
            for key, value in before.items():
                if now.get(key, _missing) is not value:
                    setattr(owner, key, value)
            return
        place = vars(owner) if self.has_attributes else owner
        place.clear()
        place.extend(before.values()) if _is(place, _sequences) else place.update(before)


class State:
    """As it is now."""

    def __init__(self, model):
        modules = list(model.named_modules()) if hasattr(model, "named_modules") else []
        self.holders, seen = [], set()

        def add(owner, *where):
            if id(owner) not in seen and len(seen) < 20 * len(modules) + _most_holders:
                seen.add(id(owner))
                try:
                    self.holders.append(_Holder(owner, *where))
                except Exception:
                    pass  # it does not let itself be looked into

        for path, module in modules:
            add(module, path, module)
        for path, module in modules:
            for kind in type(module).__mro__:
                if not kind.__module__.startswith("torch.") and kind is not object:
                    add(kind, kind.__name__, module)
        for found in self._of_each(lambda holder: list(holder.inner())):  # of holders that grow meanwhile
            for inner in found:
                add(*inner)

    def _of_each(self, function):
        """What it gives for each holder; none for objects of the user's that raise when they are looked into."""
        for holder in self.holders:
            try:
                given = function(holder)
            except Exception:
                continue
            yield given

    def changes(self):
        """(module, its attribute, does that itself change, is it a parameter or buffer, place, name, before, after) of each
        entry that is another object. None stands for what is not there; to tell of one of each place is enough."""
        return [change for found in self._of_each(lambda holder: list(holder.changes())) for change in found]

    def restore(self):
        collections.deque(self._of_each(_Holder.restore), maxlen=0)


def places(module, name, is_assigned):
    """(code, offset) of each `self.name`, or each `self.name = ...`, in the methods of a module, forward's first; __init__ does
    not count."""
    methods = {}
    for kind in type(module).__mro__:
        for label, member in vars(kind).items():
            methods.setdefault(label, member)
    codes = [getattr(methods[label], "__code__", None) for label in sorted(methods, key=lambda label: label != "forward")
             if label != "__init__"]
    operations = ("STORE_ATTR",) if is_assigned else ("LOAD_ATTR", "LOAD_METHOD")
    return [(code, step.offset) for code in codes if code is not None and name in code.co_names
            for step in dis.get_instructions(code) if step.opname in operations and step.argval == name]
