# What goes in and out of an exported program's graph: parameters, buffers and constants are inputs; updated buffers and inputs
# are outputs, before those of the user.
import dataclasses
import enum
import typing


__all__ = ["ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec",
           "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument", "TokenArgument"]


@dataclasses.dataclass
class TensorArgument:
    name: str


@dataclasses.dataclass
class TokenArgument:
    name: str


@dataclasses.dataclass
class SymIntArgument:
    name: str


@dataclasses.dataclass
class SymFloatArgument:
    name: str


@dataclasses.dataclass
class SymBoolArgument:
    name: str


@dataclasses.dataclass
class CustomObjArgument:
    name: str
    class_fqn: str
    fake_val: typing.Any = None


@dataclasses.dataclass
class ConstantArgument:
    name: str
    value: typing.Any


class InputKind(enum.Enum):
    USER_INPUT = 1
    PARAMETER = 2
    BUFFER = 3
    CONSTANT_TENSOR = 4
    CUSTOM_OBJ = 5
    TOKEN = 6


class OutputKind(enum.Enum):
    USER_OUTPUT = 1
    LOSS_OUTPUT = 2
    BUFFER_MUTATION = 3
    PARAMETER_MUTATION = 4
    GRADIENT_TO_PARAMETER = 5
    GRADIENT_TO_USER_INPUT = 6
    USER_INPUT_MUTATION = 7
    TOKEN = 8


def _described(spec):
    name = getattr(spec.arg, "name", "") or repr(getattr(spec.arg, "value", ""))
    target = "" if spec.target is None else f" target='{spec.target}'"
    persistent = getattr(spec, "persistent", None)
    return f"{name}: {spec.kind.name}{target}" + ("" if persistent is None else f" persistent={persistent}")


@dataclasses.dataclass
class InputSpec:
    kind: InputKind
    arg: typing.Any
    target: str | None
    persistent: bool | None = None

    def __str__(self):
        return _described(self)


@dataclasses.dataclass
class OutputSpec:
    kind: OutputKind
    arg: typing.Any
    target: str | None

    def __str__(self):
        return _described(self)


@dataclasses.dataclass
class ExportBackwardSignature:
    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    input_specs: list
    output_specs: list

    def _targets(self, *kinds):
        return tuple(spec.target for spec in self.input_specs if spec.kind in kinds)

    def _by_name(self, specs, kind):
        return {spec.arg.name: spec.target for spec in specs if spec.kind is kind}

    def _user_values(self, specs, kind):
        return tuple(spec.arg.value if isinstance(spec.arg, ConstantArgument) else spec.arg.name
                     for spec in specs if spec.kind is kind)

    @property
    def parameters(self):
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self):
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self):
        return {spec.target for spec in self.input_specs if spec.kind is InputKind.BUFFER and not spec.persistent}

    @property
    def lifted_tensor_constants(self):
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self):
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self):
        return self._user_values(self.input_specs, InputKind.USER_INPUT)

    @property
    def user_outputs(self):
        return self._user_values(self.output_specs, OutputKind.USER_OUTPUT)

    @property
    def inputs_to_parameters(self):
        return self._by_name(self.input_specs, InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self):
        return self._by_name(self.input_specs, InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self):
        return self._by_name(self.input_specs, InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self):
        return self._by_name(self.input_specs, InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self):
        return self._by_name(self.output_specs, OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self):
        return self._by_name(self.output_specs, OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self):
        return self._by_name(self.output_specs, OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self):
        return None

    assertion_dep_token = backward_signature
    input_tokens = output_tokens = property(lambda self: ())

    def __str__(self):
        lines = ["", "# inputs", *map(str, self.input_specs), "", "# outputs", *map(str, self.output_specs), ""]
        return "\n".join(lines)
