# Names of PyTorch that model libraries touch while they are imported, and never need: they resolve, and raise when used.
#
# A placeholder is a class, since libraries subclass and annotate with these names. Its rules, each met in a real library:
#   - an attribute of a placeholder is a placeholder; of a user's subclass of one it is an AttributeError;
#   - called with one function or class before forward it returns it (a decorator); called while a library is being imported it
#     gives another placeholder (a decorator's factory, a registration); otherwise the call raises, with the name;
#   - what makes another function of one (torch.func.grad) is no decorator: `refused` stands for it;
#   - a truth test raises: a feature test must not silently come out true.
# Modules of PyTorch without a file of ours are made by the finder below from names.txt and _constants.py.
import abc
import importlib.machinery
import importlib.util
import sys
import types

import _atenon

from torch import _names


# What to write instead of a name that begins so.
_FIXES = {
    "torch.nested": "pad the sequences to one length (torch.nn.utils.rnn.pad_sequence), and take their lengths or a mask as an input",
    "torch.sparse.softmax": "keep rows and values as tensors: e = values.exp(); e / torch.zeros(n).index_add(0, rows, e)[rows]",
    "torch.sparse": "take x.to_dense(), or keep rows, columns and values as tensors: torch.zeros(n, d).index_add(0, rows, values[:, None] * x[columns])",
    "torch.distributions": "write its density out; torch.rand, torch.randn, torch.bernoulli and torch.multinomial draw",
    "torch.autograd": "write the derivative out",
    "torch.func": "write the derivative out",
    "torch.jit": "leave the module or function as it is: atenon capture follows its Python",
    "": 'write it with other functions of torch, or make it an operator of yours: @torch.library.custom_op("mine::NAME", mutates_args=()), '
        "whose meaning atenon decompose --with my.ops gives",
}


# PyTorch's modules have what their files import, too, and models reach it through them: torch.sparse.torch.eye, F.math.pi.
_IMPORTED = {"torch", "math"}


class Unsupported(NotImplementedError):
    """A name of PyTorch that Atenon does not have was used."""

    def __init__(self, message, name=None):
        super().__init__(message)
        if name is not None:
            self.add_note("fix: " + next(fix for prefix, fix in _FIXES.items() if name.startswith(prefix)))


def _is_importing_library():
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and "__atenon_entry__" not in frame.f_globals:
            return True
        frame = frame.f_back
    return False


class _PlaceholderMeta(abc.ABCMeta):
    def _is_placeholder(cls):
        return "_placeholder_name" in cls.__dict__

    def __call__(cls, *args, **kwargs):
        if not cls._is_placeholder():
            return super().__call__(*args, **kwargs)
        is_decorator = len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type))
        if is_decorator and not _atenon.is_tracing():
            return args[0]
        if _is_importing_library():
            return make(cls._placeholder_name + "()")
        raise Unsupported(f"{cls._placeholder_name} is not supported", cls._placeholder_name)

    def __getattr__(cls, name):
        if name.startswith("_") or not cls._is_placeholder():
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return make(f"{cls._placeholder_name}.{name}")

    def __getitem__(cls, item):
        return cls

    def __iter__(cls):  # by __getitem__ it would never end
        raise Unsupported(f"{cls._placeholder_name} is not supported, nor to be iterated over")

    def __bool__(cls):
        if cls._is_placeholder():
            raise Unsupported(f"the truth of {cls._placeholder_name} is not known: it is not supported")
        return True

    def __repr__(cls):
        return f"<placeholder {cls._placeholder_name}>" if cls._is_placeholder() else super().__repr__()


def make(name):
    """A new placeholder for a qualified name."""
    module, _, short = name.rpartition(".")
    return _PlaceholderMeta(short, (), {"__module__": module, "_placeholder_name": name})


def refused(name, reason):
    """A function that is there, and raises when it is called."""

    def function(*args, **kwargs):
        raise Unsupported(f"{name} is not supported: {reason}")

    function.__name__ = name.rpartition(".")[2]
    return function


def _has_file(module, qualified):
    return hasattr(sys.modules[module], "__path__") and importlib.util.find_spec(qualified) is not None


def attribute(module, name):
    """What a module answers for a name it does not define: a submodule, a placeholder, what its file imports, or AttributeError."""
    qualified = f"{module}.{name}"
    if not name.startswith("__"):
        if _names.has_module(qualified) or _has_file(module, qualified):
            return importlib.import_module(qualified)
        if name in _names.set_of(module):
            placeholder = make(qualified)
            setattr(sys.modules[module], name, placeholder)
            return placeholder
    if name in _IMPORTED:
        return importlib.import_module(name)
    raise AttributeError(f"module '{module}' has no attribute '{name}'")


def getter(module):
    """The module-level __getattr__ of one of PyTorch's modules."""
    return lambda name: attribute(module, name)


completed = {}  # a library's module -> what is done with it when it has run: in place of some of it stands ours


class _Completing(importlib.machinery.SourceFileLoader):
    """Of a file of a library's."""

    def exec_module(self, module):
        super().exec_module(module)
        completed[module.__name__](module)


class _Loader(importlib.machinery.SourceFileLoader):
    """Of a file of ours: what it does not define itself, its module is asked for here."""

    def exec_module(self, module):
        module.__getattr__ = getter(module.__name__)
        super().exec_module(module)


class _Finder:
    """Finds our files of PyTorch's modules, makes those that have no file here, and has ours put into libraries."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        is_torch = fullname.startswith("torch.")
        if not is_torch and fullname not in completed:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = (_Loader if is_torch else _Completing)(fullname, spec.origin)
        elif spec is None and is_torch and _names.has_module(fullname):
            spec = importlib.machinery.ModuleSpec(fullname, _Finder, is_package=True)
        return spec

    @staticmethod
    def create_module(spec):
        return types.ModuleType(spec.name)

    @staticmethod
    def exec_module(module):
        from torch import _constants

        module.__dict__.update(_constants.of(module.__name__))
        module.__getattr__ = getter(module.__name__)


def install():
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
