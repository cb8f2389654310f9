# Operators as Python functions, made when first asked for: torch.ops.aten.add.Tensor, torch.add, Tensor.add.
#
# The native module binds arguments by the operator's schema, so nothing here knows a signature. `aten` is what the rest
# of the package calls: `aten.linear(x, w, b)` is the native callable itself, without a Python frame in between.
import _atenon

from torch import _names, _placeholder


class _Namespace:
    """Operators of one namespace as native callables, cached as attributes."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, operator):
        if operator.startswith("__"):
            raise AttributeError(operator)
        function = _atenon.function(f"{self._name}::{operator}")
        self.__dict__[operator] = function
        return function


aten = _Namespace("aten")


def exists(operator):
    return _atenon.has(f"aten::{operator}")


class OpOverload:
    """torch.ops.aten.add.Tensor: one overload of an operator."""

    def __init__(self, packet, overload):
        self._packet = packet
        self._overloadname = overload
        qualified = packet._qualified_op_name
        self._name = qualified if overload == "default" else f"{qualified}.{overload}"
        # `out` is a keyword that every operator takes: which overload it is, the other arguments say.
        writes = overload == "out" or overload.endswith("_out")
        self._function = _atenon.function(qualified if writes else f"{qualified}.{overload}")
        self.__name__ = f"{packet.__name__}.{overload}"
        self.namespace = qualified.split("::")[0]

    @property
    def overloadpacket(self):
        return self._packet

    op = overloadpacket

    def name(self):
        return self._name

    @property
    def _schema(self):
        return _atenon.schema(self._name)

    def __call__(self, /, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __str__(self):
        return self._name.replace("::", ".") + (".default" if self._overloadname == "default" else "")

    def __repr__(self):
        return f"<OpOverload(op='{self._packet._qualified_op_name.replace('::', '.')}', overload='{self._overloadname}')>"

    def __hash__(self):
        return hash(self._name)

    def __deepcopy__(self, memo):
        return self


class OpOverloadPacket:
    """torch.ops.aten.add: an operator, whose overload is chosen by the arguments."""

    def __init__(self, namespace, operator):
        self.__name__ = operator
        self._qualified_op_name = f"{namespace}::{operator}"
        self._function = _atenon.function(self._qualified_op_name)

    def __getattr__(self, overload):
        if overload.startswith("__"):
            raise AttributeError(overload)
        try:
            found = OpOverload(self, overload)
        except _atenon.CaptureError as error:
            raise AttributeError(f"torch.ops.{self._qualified_op_name.replace('::', '.')} has no overload "
                                 f"'{overload}'") from error
        setattr(self, overload, found)
        return found

    def __call__(self, /, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self._qualified_op_name.replace('::', '.')}')>"

    def __deepcopy__(self, memo):
        return self


class _Question:
    """torch.ops.aten.sym_size and its kin: what a tensor knows of itself. Sizes are expressions, so no node comes of it."""

    def __init__(self, name, ask):
        self.__name__ = name
        self._ask = ask

    def __getattr__(self, overload):
        if overload not in ("default", "int"):
            raise AttributeError(overload)
        return self

    def __call__(self, self_, *dim):
        return self._ask(self_, *dim)


_questions = {
    "sym_size": lambda tensor, *dim: tensor.size(*dim),
    "sym_stride": lambda tensor, *dim: tensor.stride(*dim),
    "sym_numel": lambda tensor: tensor.numel(),
    "sym_storage_offset": lambda tensor: tensor.storage_offset(),
    "sym_is_contiguous": lambda tensor: tensor.is_contiguous(),
}


class OpNamespace:
    """torch.ops.aten."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, operator):
        if self.name == "aten" and operator in _questions:
            return _Question(operator, _questions[operator])
        if _atenon.has(f"{self.name}::{operator}"):
            packet = OpOverloadPacket(self.name, operator)
        elif operator in _names.set_of(f"torch.ops.{self.name}"):
            packet = _placeholder.make(f"torch.ops.{self.name}.{operator}")
        else:
            raise AttributeError(f"torch.ops.{self.name} has no operator '{operator}'")
        setattr(self, operator, packet)
        return packet

    def __dir__(self):
        prefix = self.name + "::"
        return sorted({n.removeprefix(prefix).split(".")[0] for n in _atenon.names() if n.startswith(prefix)})
