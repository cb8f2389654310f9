# Stateful classes of compiled extensions: torch.classes.my.Queue, with a fake class beside it for tracing.
#
# The object itself is C++ of an extension that is linked with PyTorch; without that there is nothing to construct, and no
# program could run its methods. So fake classes can be declared, and the first use of the class says what to write instead.
import _atenon

_fakes = {}


class FakeScriptObject:
    """What PyTorch makes of a script object while it traces; there are none here."""


def register_fake_class(qualname, fake_class=None):
    def register(fake):
        if qualname.count("::") != 1:
            raise ValueError(f"the name of a class is namespace::name, not {qualname}")
        if not hasattr(fake, "__obj_unflatten__"):
            raise RuntimeError(f"{fake} doesn't define a classmethod __obj_unflatten__.")
        _fakes[qualname] = fake
        return fake

    return register if fake_class is None else register(fake_class)


def has_fake_class(qualname):
    return qualname in _fakes


class ClassNamespace:
    """torch.classes.my."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        methods = [method for method in vars(_fakes.get(f"{self._name}::{name}", object)) if not method.startswith("__")]
        uses = ", ".join(f'"{self._name}::{method}"' for method in methods) or f'"{self._name}::push"'
        _atenon.fail(319, f"torch.classes.{self._name}.{name} is a class of a compiled extension of PyTorch, whose objects no program can hold"
                     + (": its fake class has types, but neither state nor kernels" if methods else ""),
                     "keep its state in buffers of the module, and make each method a custom operator on them: "
                     f"@torch.library.custom_op({uses.partition(',')[0]}, mutates_args={{\"state\"}})"
                     + (f", and so for {uses.partition(', ')[2]}" if len(methods) > 1 else ""))
