# Sparse tensors: where the entries lie and what they are, as two dense tensors that operators of the graph compute with.
#
# No operator of ours knows a layout, so a sparse tensor is no native tensor: the native module gives up on it and asks
# __torch_function__, which finds torch.mm and x.mm in one table. The graph has dense tensors alone. A product gathers rows,
# scales them and adds them up, whatever the matrix is: that costs by the number of entries, as PyTorch's does, and a
# dense form of a graph with a million nodes fits in no memory.
#
# Entries at one place count as their sum. How many places there are depends on data, so forward leaves such entries side by
# side, which every linear operator allows; only asking for the summed entries themselves is refused there.
import builtins

import _atenon

from torch import _dtypes, _names
from torch._operators import aten
from torch._placeholder import Unsupported
from torch._size import Size
from torch._tensor import Tensor, legacy_types

__all__ = ["dsmm", "sparse_coo_tensor", "sparse_csr_tensor", "spmm"]

_coo, _csr, _csc = (_dtypes.layouts[name] for name in ("sparse_coo", "sparse_csr", "sparse_csc"))
_bool, _int64 = _dtypes.named["bool"], _dtypes.named["int64"]


def _refused(message, fix):
    refusal = Unsupported(message)
    refusal.add_note("fix: " + fix)
    return refusal


class SparseTensor:
    """`_places`: i64[rank, count]; `_entries`: [count], in `layout`'s order. `_summed`: does each place have one entry, in order?
    None where it has one in PyTorch, and may have several here (forward coalesces by name only)."""

    __module__ = "torch.sparse"
    __class__ = property(lambda self: Tensor)  # isinstance(x, torch.Tensor) holds
    __array_priority__ = 1000  # NumPy's numbers leave operators to us
    is_cpu = is_leaf = True
    is_cuda = is_meta = is_quantized = is_nested = False
    grad = grad_fn = None

    def __init__(self, places, entries, size, summed=False, layout=_coo):
        self._places, self._entries, self.shape, self._summed, self.layout = places, entries, Size(size), summed, layout
        self.requires_grad = entries.requires_grad

    def _having(self, entries):
        """Other entries at the same places."""
        return SparseTensor(self._places, entries, self.shape, self._summed, self.layout)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = function.__name__.partition(".")[0]
        if name not in _operators:
            raise Unsupported(f"torch.{name} of a sparse tensor is not supported", "torch.sparse")
        return _operators[name](*args, **(kwargs or {}))

    # --- What it is

    dtype = property(lambda self: self._entries.dtype)
    device = property(lambda self: self._entries.device)
    is_sparse = property(lambda self: self.layout is _coo)
    is_sparse_csr = property(lambda self: self.layout is _csr)
    ndim = property(lambda self: len(self.shape))
    T = mT = property(lambda self: self.t())

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, other):
        for name in ("_places", "_entries", "_summed", "shape", "layout"):
            setattr(self, name, getattr(other, name))

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return len(self.shape)

    def numel(self):
        return self.shape.numel()

    def element_size(self):
        return self._entries.element_size()

    def is_contiguous(self, memory_format=None):
        return False

    def sparse_dim(self):
        return self._places.shape[0]

    def dense_dim(self):
        return self._entries.dim() - 1

    def is_coalesced(self):
        return self._summed is not False

    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            return f"torch.sparse.{_dtypes.legacy_names[_dtypes.name_of(self.dtype)]}"
        return self._having(self._entries.type(dtype))

    # --- Its entries

    def _known(self, name):
        if self._summed is None:
            raise _refused(f"torch.Tensor.{name} of a sparse tensor whose entries forward has summed up is not supported: how many "
                           "there are depends on data", "keep the indices and values that it was made of, or coalesce() in __init__")

    def _nnz(self):
        self._known("_nnz")
        return self._entries.shape[0]

    def _indices(self):
        self._known("_indices")
        return self._places

    def _values(self):
        self._known("_values")
        return self._entries

    def _coalesced_part(self, name, part):
        if self._summed is False:
            raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")
        self._known(name)
        return part

    def indices(self):
        if self.layout is not _coo:
            raise RuntimeError(f"indices expected sparse coordinate tensor layout but got {self.layout}")
        return self._coalesced_part("indices", self._places)

    def values(self):
        return self._coalesced_part("values", self._entries)

    def crow_indices(self):
        if self.layout is not _csr:
            raise RuntimeError(f"crow_indices expected sparse row compressed tensor layout but got {self.layout}")
        rows = self._places[0]
        return aten.zeros([self.shape[0] + 1], dtype=_int64).index_add(0, rows + 1, aten.ones_like(rows)).cumsum(0)

    def col_indices(self):
        if self.layout is not _csr:
            raise RuntimeError(f"col_indices expected sparse row compressed tensor layout but got {self.layout}")
        return self._places[1]

    def coalesce(self):
        if self._summed is not False:
            return self
        if _atenon.is_tracing():
            if self.dtype == _bool:
                raise _refused("torch.Tensor.coalesce of boolean entries is not supported in forward: it does not add them up",
                               "make them numbers before, or coalesce() in __init__")
            return SparseTensor(self._places, self._entries, self.shape, None)
        sizes = self.shape[: self.sparse_dim()]
        numbers = self._places[0]
        for size, place in zip(sizes[1:], self._places[1:].unbind()):
            numbers = numbers * size + place
        numbers, owners = numbers.unique(return_inverse=True)
        entries = self._entries.new_zeros([numbers.shape[0], *self._entries.shape[1:]]).index_add(0, owners, self._entries)
        places = []
        for size in reversed(sizes[1:]):
            places.insert(0, numbers % size)
            numbers = numbers // size
        return SparseTensor(aten.stack([numbers, *places]), entries, self.shape, True)

    # --- In other forms

    def to_dense(self, dtype=None, *, masked_grad=None):
        dense = aten.zeros(self.shape, dtype=self.dtype).index_put(self._places.unbind(), self._entries, accumulate=True)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
        if layout is _csr:
            return self.to_sparse_csr()
        if layout not in (None, _coo):
            raise Unsupported(f"sparse tensors in {layout} are not supported", "torch.sparse")
        return self if self.is_sparse else SparseTensor(self._places, self._entries, self.shape, self.layout is _csr)

    to_sparse_coo = to_sparse

    def to_sparse_csr(self, dense_dim=None):
        if self.is_sparse_csr:
            return self
        summed = self.to_sparse().coalesce()
        summed._known("to_sparse_csr")
        return SparseTensor(summed._places, summed._entries, self.shape, True, _csr)

    def transpose(self, dim0, dim1):
        order = list(range(self.sparse_dim()))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        return self.permute(order)

    def permute(self, *dims):
        rank = self.sparse_dim()
        order = [dim % len(self.shape) for dim in (dims[0] if isinstance(dims[0], (tuple, list)) else dims)]
        if order == list(range(rank)):
            return self
        if self.dense_dim() or len(order) != rank:
            raise Unsupported("permuting the dense dimensions of a sparse tensor is not supported", "torch.sparse")
        places = self._places.unbind()
        layout = {_coo: _coo, _csr: _csc, _csc: _csr}[self.layout]
        return SparseTensor(aten.stack([places[dim] for dim in order]), self._entries, [self.shape[dim] for dim in order],
                            layout is not _coo, layout)

    def t(self):
        return self.transpose(0, 1) if self.dim() == 2 else self.permute(list(range(self.dim())))

    def copy_(self, other, non_blocking=False):
        if _atenon.is_tracing() or other.layout is not self.layout:
            raise Unsupported("copying into a sparse tensor is supported from another one outside of forward only", "torch.sparse")
        self.data = other.to(self.dtype)
        return self

    def numpy(self):
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    # Attributes of the user's are copied with the rest; the class that we show is not the one to make.
    def __reduce_ex__(self, protocol):
        return object.__new__, (SparseTensor,), self.__dict__

    def __repr__(self):
        return f"tensor(indices={self._places}, values={self._entries}, size={tuple(self.shape)}, layout={self.layout})"

    def __len__(self):
        return self.shape[0]

    def __iter__(self):  # a TypeError, as for what follows: by it the native module knows that an operator is not for this
        raise TypeError("a sparse tensor has no rows to go through: use to_dense()")

    def __float__(self):
        raise TypeError("a sparse tensor is no number")

    def __getitem__(self, index):
        raise Unsupported("indexing a sparse tensor is not supported", "torch.sparse")

    def __eq__(self, other):
        raise Unsupported("comparing a sparse tensor is not supported", "torch.sparse")

    __ne__ = __eq__
    __hash__ = object.__hash__

    def __bool__(self):
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")


# --- Operators, each with its arguments as the dense one has them


def _is_sparse(x):
    return builtins.type(x) is SparseTensor


def _product(matrix, dense):
    """Sparse times dense, both matrices."""
    if matrix.dim() != 2 or matrix.sparse_dim() != 2 or dense.dim() != 2:
        raise Unsupported("a product with a sparse tensor is supported of matrices", "torch.sparse")
    if matrix.dtype != dense.dtype:
        raise RuntimeError(f"expected the types of a product to be the same, not {matrix.dtype} and {dense.dtype}")
    if matrix.shape[1] != dense.shape[0]:
        raise RuntimeError(f"shapes of a product do not fit: {tuple(matrix.shape)} and {tuple(dense.shape)}")
    rows, columns = matrix._places.unbind()
    scaled = matrix._entries.unsqueeze(1) * dense.index_select(0, columns)
    return aten.zeros([matrix.shape[0], dense.shape[1]], dtype=dense.dtype).index_add(0, rows, scaled)


def _bmm(self, mat2):
    """A stack of sparse matrices times one of dense ones: entry (i, j, k) scales row k of matrix i."""
    if _is_sparse(mat2):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if self.layout is not _coo:
        raise Unsupported("torch.bmm of a sparse tensor is supported in the layout torch.sparse_coo", "torch.sparse")
    if self.sparse_dim() != 3 or self.dense_dim() or mat2.dim() != 3:
        raise RuntimeError("bmm_sparse: both arguments must have 3 dimensions, the first one all of them sparse")
    if self.dtype != mat2.dtype:
        raise RuntimeError(f"expected the types of a product to be the same, not {self.dtype} and {mat2.dtype}")
    stack, height, width = self.shape
    if mat2.shape[0] != stack or mat2.shape[1] != width:
        raise RuntimeError(f"shapes of a product do not fit: {tuple(self.shape)} and {tuple(mat2.shape)}")
    matrices, rows, columns = self._places.unbind()
    taken = mat2.reshape(stack * width, mat2.shape[2]).index_select(0, matrices * width + columns)
    result = aten.zeros([stack * height, mat2.shape[2]], dtype=mat2.dtype)
    return result.index_add(0, matrices * height + rows, self._entries.unsqueeze(1) * taken).reshape(stack, height, mat2.shape[2])


def _sparse_product(left, right):
    """Sparse times sparse: entry (i, k) meets all of row k, which lie side by side in order."""
    if _atenon.is_tracing():
        raise _refused("the product of two sparse matrices is not supported in forward: how many entries it has depends on data",
                       "multiply in __init__, or make one of them dense: to_dense()")
    if left.dim() != 2 or right.dim() != 2 or left.shape[1] != right.shape[0] or left.dtype != right.dtype:
        raise RuntimeError(f"a product takes matrices of one type that fit, not {tuple(left.shape)} and {tuple(right.shape)}")
    is_csr = left.layout is _csr and right.layout is _csr
    left, right = left.to_sparse().coalesce(), right.to_sparse_csr()
    (rows, inner), begins = left._places.unbind(), right.crow_indices()
    counts = begins[inner + 1] - begins[inner]
    pairs = aten.repeat_interleave(aten.arange(inner.shape[0]), counts)
    first = counts.cumsum(0) - counts  # where the pairs of an entry begin
    partners = begins[inner][pairs] + aten.arange(pairs.shape[0]) - first[pairs]
    places = aten.stack([rows[pairs], right._places[1][partners]])
    product = SparseTensor(places, left._entries[pairs] * right._entries[partners], (left.shape[0], right.shape[1])).coalesce()
    return product.to_sparse_csr() if is_csr else product


def _mm(self, mat2):
    if not _is_sparse(self):
        return _product(mat2.t(), self.t()).t()
    return _sparse_product(self, mat2) if _is_sparse(mat2) else _product(self, mat2)


def _mv(self, vec):
    return _product(self, vec.unsqueeze(1)).squeeze(1)


def _matmul(self, other):
    if _is_sparse(self):
        return _mv(self, other) if other.dim() == 1 else _mm(self, other)
    if self.dim() == 1:
        return _mv(other.t(), self)
    rows = self.reshape(-1, self.shape[-1])
    return _mm(rows, other).reshape([*self.shape[:-1], other.shape[1]])


def _addmm(self, mat1, mat2, *, beta=1, alpha=1):
    product = _mm(mat1, mat2)
    if _is_sparse(self) or _is_sparse(product):
        raise Unsupported("torch.addmm with a sparse result is not supported", "torch.sparse")
    if beta == 0:  # what is in it does not count, not even a NaN
        return product * alpha
    return self * beta + product * alpha


def _linear(input, weight, bias=None):
    result = _matmul(input, weight.t())
    return result if bias is None else result + bias


def _mul(self, other):
    if _is_sparse(self) and _is_sparse(other):
        raise Unsupported("the product of two sparse tensors by elements is not supported", "torch.sparse")
    sparse, factor = (self, other) if _is_sparse(self) else (other, self)
    if isinstance(factor, Tensor) and factor.dim() > 0:
        factor = factor.expand(sparse.shape)[sparse._places.unbind()]
    return sparse._having(sparse._entries * factor)


def _div(self, other, *, rounding_mode=None):
    if _is_sparse(other) or (isinstance(other, Tensor) and other.dim() > 0):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor")
    if rounding_mode is not None:
        raise Unsupported("the rounding division of a sparse tensor is not supported", "torch.sparse")
    return self._having(self._entries / other)


def _add(self, other, *, alpha=1):
    if not _is_sparse(other):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if self.shape != other.shape:
        raise RuntimeError(f"add: expected 'self' and 'other' to have same size, but got {tuple(self.shape)} and {tuple(other.shape)}")
    if not _is_sparse(self):
        return aten.add(self, other.to_dense(), alpha=alpha)
    entries = other._entries if alpha == 1 else other._entries * alpha
    summed = SparseTensor(aten.cat([self._places, other._places], 1), aten.cat([self._entries, entries]), self.shape).coalesce()
    return summed if self.layout is _coo else summed.to_sparse_csr()


def _add_(self, other, *, alpha=1):
    if _is_sparse(self):
        raise Unsupported("torch.Tensor.add_ of a sparse tensor is not supported", "torch.sparse")
    return self.add_(other.to_dense(), alpha=alpha)


def _sum(input, dim=None, keepdim=False, *, dtype=None):
    if dtype is None and not (input.is_floating_point() or input.is_complex()):
        dtype = _int64
    if dtype is not None:
        input = input.to(dtype)
    rank = input.dim()
    dims = range(rank) if dim is None else {d % rank for d in ([dim] if isinstance(dim, int) else dim)}
    if len(dims) == rank and not keepdim:
        return input._entries.sum()
    if input.dense_dim():
        raise Unsupported("the sum over some dimensions of a sparse tensor with dense ones is not supported", "torch.sparse")
    places = [aten.zeros_like(place) if d in dims else place for d, place in enumerate(input._places.unbind()) if keepdim or d not in dims]
    sizes = [1 if d in dims else size for d, size in enumerate(input.shape) if keepdim or d not in dims]
    return SparseTensor(aten.stack(places), input._entries, sizes).coalesce()


def _dropout(input, p=0.5, train=True):
    if train:
        raise Unsupported("dropout of a sparse tensor is not supported in training", "torch.sparse")
    return input


def _by_entries(name):
    """What is computed of the entries alone, and adds up: a cast, a sign."""
    def method(self, *args, **kwargs):
        entries = getattr(self._entries, name)(*args, **kwargs)
        if self.is_floating_point() and not (entries.is_floating_point() or entries.is_complex()):
            self._known(name)  # rounding does not add up
        return self if entries is self._entries else self._having(entries)

    method.__name__ = name
    return method


_linear_in_entries = ("bfloat16", "clone", "cpu", "cuda", "detach", "double", "float", "half", "int", "long", "neg", "to")
_operators = {
    "mm": _mm, "bmm": _bmm, "mv": _mv, "matmul": _matmul, "addmm": _addmm, "linear": _linear, "mul": _mul, "multiply": _mul, "div": _div, "divide": _div,
    "true_divide": _div, "add": _add, "add_": _add_, "sub": lambda self, other, *, alpha=1: _add(self, other, alpha=-alpha),
    "sub_": lambda self, other, *, alpha=1: _add_(self, other, alpha=-alpha), "sum": _sum, "dropout": _dropout, "spmm": _mm,
    **{name: _by_entries(name) for name in _linear_in_entries},
    **{name: getattr(SparseTensor, name) for name in ("coalesce", "permute", "t", "to_dense", "transpose", "values")},
}


def _unsupported(name):
    def method(self, *args, **kwargs):
        raise Unsupported(f"torch.Tensor.{name} of a sparse tensor is not supported", "torch.sparse")

    method.__name__ = name
    return method


# The rest of what a tensor has: what asks of nothing but the above is Tensor's own.
_asks_only = ("get_device", "is_complex", "is_floating_point", "is_same_size", "is_signed", "itemsize", "ndimension", "nelement",
              "pin_memory", "requires_grad_", "retain_grad", "share_memory_", "type_as")
for _name in _names.of("torch.Tensor"):
    if _name not in vars(SparseTensor) and not _name.startswith("__"):
        _of_tensor = vars(Tensor)[_name] if _name in _asks_only else None
        setattr(SparseTensor, _name, _operators.get(_name) or _of_tensor or _unsupported(_name))
for _name in ("addmm", "bmm", "matmul", "mm"):  # through the native module, where torch.autocast casts
    setattr(SparseTensor, _name, _atenon.method(f"aten::{_name}"))
for _name, _operator in {"add": _add, "sub": _operators["sub"], "mul": _mul, "rmul": _mul, "truediv": _div, "matmul": SparseTensor.matmul,
                         "neg": _operators["neg"]}.items():
    setattr(SparseTensor, f"__{_name}__", _operator)
SparseTensor.__radd__ = lambda self, other: _add(other, self)
SparseTensor.__rmatmul__ = lambda self, other: aten.matmul(other, self)


# --- Sparse tensors from their parts


def _given(entries, dtype, device, requires_grad):
    if device is not None:
        _atenon.check_device(device)
    entries = _atenon.tensor(entries, dtype=dtype) if not isinstance(entries, Tensor) else entries if dtype is None else entries.to(dtype)
    return entries.requires_grad_() if requires_grad else entries


def _numbers(indices):
    return indices.to(_int64) if isinstance(indices, Tensor) else _atenon.tensor(indices, dtype=_int64)


def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
                      check_invariants=None, is_coalesced=None):
    if values is None:
        size = indices if size is None else size
        indices, values = aten.zeros([len(size), 0], dtype=_int64), aten.zeros([0], dtype=dtype)
    places, entries = _numbers(indices), _given(values, dtype, device, requires_grad)
    if places.dim() != 2 or entries.dim() == 0 or places.shape[1] != entries.shape[0]:
        raise RuntimeError("indices and values must have same nnz, but got indices of the shape "
                           f"{tuple(places.shape)} and values of {tuple(entries.shape)}")
    if size is None:
        size = [*(places.amax(1) + 1).tolist(), *entries.shape[1:]]
    count = places.shape[1]
    return SparseTensor(places, entries, size, is_coalesced or (builtins.type(count) is int and count < 2))


def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
                      check_invariants=None):
    begins, columns, entries = _numbers(crow_indices), _numbers(col_indices), _given(values, dtype, device, requires_grad)
    if begins.dim() != 1 or columns.dim() != 1:
        raise Unsupported("batches of matrices in torch.sparse_csr are not supported", "torch.sparse")
    if size is None:
        size = [begins.shape[0] - 1, (columns.amax(0) + 1).item()]
    rows = aten.searchsorted(begins, aten.arange(columns.shape[0]), right=True) - 1
    return SparseTensor(aten.stack([rows, columns]), entries, size, True, _csr)


def from_dense(dense, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """Tensor.to_sparse of a dense tensor."""
    if layout not in (None, _coo, _csr) or (sparse_dim or dense.dim()) != dense.dim():
        raise Unsupported("torch.Tensor.to_sparse into other than torch.sparse_coo and torch.sparse_csr is not supported", "torch.sparse")
    if _atenon.is_tracing():
        raise _refused("torch.Tensor.to_sparse is not supported in forward: how many entries it gives depends on data",
                       "multiply by the dense matrix, which has the same product, or make a constant one sparse in __init__")
    places = aten.nonzero(dense).t()
    made = SparseTensor(places, dense.detach()[places.unbind()], dense.shape, True)
    return made.to_sparse_csr() if layout is _csr else made


def mm(mat1, mat2, reduce="sum"):
    """torch.sparse.mm."""
    if reduce != "sum":
        raise Unsupported(f"torch.sparse.mm with reduce='{reduce}' is not supported", "torch.sparse")
    return aten.mm(mat1, mat2)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """torch.sparse.addmm."""
    return aten.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input, dim=None, dtype=None):
    """torch.sparse.sum."""
    return _sum(input, dim, dtype=input.dtype if dtype is None and dim is not None else dtype)  # of dimensions it stays an int32


spmm = dsmm = aten.mm


# --- torch.sparse.FloatTensor and its like


class _LegacyMeta(builtins.type):
    def __instancecheck__(cls, instance):
        return _is_sparse(instance) and instance.is_sparse and instance.dtype == cls.dtype


def _legacy_new(cls, *args, device=None):
    if args and isinstance(args[0], int):
        return sparse_coo_tensor(args, dtype=cls.dtype)
    return sparse_coo_tensor(*args)


legacy = {name: _LegacyMeta(name, (), {"__module__": "torch.sparse", "dtype": dense.dtype, "__new__": _legacy_new})
          for name, dense in legacy_types.items()}
