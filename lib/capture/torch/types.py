# torch.types: what PyTorch's annotations are made of, and some isinstance() tests.
import os
from typing import IO, Sequence, Union

from torch import SymBool, SymFloat, SymInt, Tensor, device, dtype, layout, memory_format, qscheme
from torch._size import Size

_int, _float, _bool, _complex, _str, _bytes = int, float, bool, complex, str, bytes
_device, _dtype, _layout, _qscheme = device, dtype, layout, qscheme
_size = Union[Size, list[int], tuple[int, ...]]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_TensorOrOptionalTensors = Union[Tensor, Sequence[Union[Tensor, None]]]
Device = Union[device, str, int, None]
_Number = (int, float, bool)
Number = Union[_Number]
FileLike = Union[str, os.PathLike[str], IO[bytes]]
IntLikeType, FloatLikeType, BoolLikeType = Union[int, SymInt], Union[float, SymFloat], Union[bool, SymBool]
PySymType = Union[SymInt, SymFloat, SymBool]
py_sym_types = (SymInt, SymFloat, SymBool)
