# torch.sparse: its functions and older constructors, which are written in _sparse.py.
from torch import _sparse
from torch._sparse import addmm, mm, sum

globals().update({name: made for name, made in _sparse.legacy.items() if name != "BoolTensor"})
