# torch.autocast on the CPU: which operators compute in the lower type, which in float32, and which in the widest of their arguments.
#
# The lists are PyTorch's documented ones. Operators that PyTorch makes of listed ones (einsum, cov) are whole here: where all of one
# is cast it stands in a list, too, and where parts are it is written out. What is in no list computes in the types that it is given.
import functools
import operator

import _atenon

from torch import _dtypes
from torch._tensor import Tensor

_lower = frozenset("""
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc convolution _convolution bmm mm baddbmm addmm
    addbmm linear matmul linalg_matmul linalg_vecdot linalg_multi_dot tensordot inner prelu
    scaled_dot_product_attention _native_multi_head_attention
    """.split())
_float32 = frozenset("""
    avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d max_unpool2d max_unpool3d
    binary_cross_entropy binary_cross_entropy_with_logits grid_sampler grid_sampler_2d grid_sampler_3d polar prod quantile nanquantile
    stft cdist trace view_as_complex cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr pinverse qr svd geqrf
    triangular_solve reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d replication_pad3d mse_loss
    cosine_embedding_loss nll_loss nll_loss2d nll_loss_nd hinge_embedding_loss poisson_nll_loss smooth_l1_loss cross_entropy_loss
    l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss kl_div
    multilabel_margin_loss fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn
    fft_irfftn fft_hfft fft_ihfft linalg_cond linalg_matrix_rank linalg_solve linalg_cholesky linalg_cholesky_ex linalg_svd
    linalg_svdvals linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv linalg_inv_ex linalg_householder_product
    linalg_tensorinv linalg_tensorsolve linalg_qr linalg_lstsq
    """.split())
_widest = frozenset(("cat", "stack", "index_copy"))
_recurrent = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"))  # see _recurrent.py

_f32, _f64, _i64 = (_dtypes.named[name] for name in ("float32", "float64", "int64"))

_borders = {"reflect": "reflection", "replicate": "replication"}


def _tensors(values):
    for value in values:
        if isinstance(value, Tensor):
            if value.dtype.is_floating_point and value.dtype != _f64:
                yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _cast(value, dtype):
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, dtype) for v in value) if type(value) in (list, tuple) else value
    for tensor in _tensors((value,)):
        return tensor if tensor.dtype == dtype else _atenon.call("aten::to", tensor, dtype)
    return value


def _listed(name, args):
    """What the lists call it: borders are one operator here."""
    border = _borders.get(args[2]) if name == "pad" and len(args) > 2 else None
    return name if border is None else f"{border}_pad{len(args[1]) // 2}d"


def _sizes(labels, operand):
    """The size of each label; the axes of an ellipsis are counted from its right."""
    before, _, after = labels.partition("...")
    hidden = operand.dim() - len(before) - len(after)
    return dict(zip([*before, *range(-hidden, 0), *after], operand.shape))


def _is_contraction(equation, operands):
    """Whether einsum sums over what two operands have, the last that has it and one before; else it only multiplies. An axis of size 1 is
    none of an operand's. Without an arrow einsum keeps what one operand has."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    kept = output if arrow else "..." + "".join(label for label in inputs if inputs.count(label) == 1)
    sizes = [_sizes(labels, operand) for labels, operand in zip(inputs.split(","), operands)]
    for label in {label for of in sizes for label in of if (label if isinstance(label, str) else "...") not in kept}:
        *earlier, last = (not (type(of[label]) is int and of[label] == 1) for of in sizes if label in of)
        if last and any(earlier):
            return True
    return False


def _target(name, dtype, arguments):
    if name in _lower or (name == "einsum" and _is_contraction(*arguments[:2])):
        return dtype
    if name in _float32:
        return _f32
    if name in _widest:
        types = {tensor.dtype for tensor in _tensors(arguments)}
        return types.pop() if len(types) == 1 else _f32 if types else None
    return None


def _linear(dtype, x, weight, bias):
    return _atenon.call("aten::linear", *(value if value is None else _cast(value, dtype) for value in (x, weight, bias)))


def _matrix_power(dtype, self, n):
    if n < 0:
        self = _atenon.call("aten::linalg_inv", _cast(self, _f32))
    return _atenon.call("aten::matrix_power", _cast(self, dtype) if abs(n) > 1 else self, abs(n))


def _chain_matmul(dtype, matrices):
    return _atenon.call("aten::chain_matmul", _cast(matrices, dtype) if len(matrices) > 1 else matrices)


def _bilinear(dtype, input1, input2, weight, bias=None):
    x, y, w = _cast((input1, input2, weight), dtype)
    half = _atenon.call("aten::einsum", "...i,oij->...oj", [x, w])
    product = _atenon.call("aten::einsum", "...oj,...j->...o", [half, y]).to(input1.dtype)
    return product if bias is None else product + bias


def _cov(dtype, self, *, correction=1, fweights=None, aweights=None):
    _atenon.call("aten::cov", self, correction=correction, fweights=fweights, aweights=aweights)  # for its checks: nobody reads it
    x = self.reshape(1, -1) if self.dim() < 2 else self
    given = [weights for weights in (fweights, aweights) if weights is not None]
    weights = functools.reduce(operator.mul, given) if given else None
    weighted = (lambda y: y * weights) if given else (lambda y: y)
    total = weights.sum() if given else _atenon.call("aten::scalar_tensor", x.shape[1], dtype=_i64)
    loss = total - (correction if aweights is None else (weights * aweights).sum() / total * correction)
    rest = x - weighted(x).sum(1, True) / total
    return (_cast(rest, dtype) @ _cast(weighted(rest).t(), dtype) / loss.clamp(min=0)).squeeze()


def _corrcoef(dtype, self):
    c = _cov(dtype, self)
    if c.dim() == 0:
        return c / c
    deviation = c.diagonal().sqrt()
    return (c / deviation.unsqueeze(1) / deviation).clamp(-1, 1)


_written_out = {"matrix_power": _matrix_power, "linalg_matrix_power": _matrix_power, "chain_matmul": _chain_matmul, "bilinear": _bilinear,
                "cov": _cov, "corrcoef": _corrcoef}


def operator_call(dtype):
    """What the native module calls in the place of an operator."""
    def call(name, /, *args, **kwargs):
        if kwargs.get("out") is not None:
            return _atenon.call(name, *args, **kwargs)
        kwargs.pop("out", None)
        base = _listed(name.removeprefix("aten::").partition(".")[0], args)
        if base in _recurrent:
            from torch._recurrent import written_out

            return written_out[base](functools.partial(_linear, dtype), *args, **kwargs)
        if base in _written_out and not any(isinstance(value, Tensor) and value.is_complex() for value in (*args, *kwargs.values())):
            return _written_out[base](dtype, *args, **{"self" if key == "input" else key: value for key, value in kwargs.items()})
        target = _target(base, dtype, (*args, *kwargs.values()))
        if target is not None:
            args = [_cast(value, target) for value in args]
            kwargs = {key: _cast(value, target) for key, value in kwargs.items()}
        return _atenon.call(name, *args, **kwargs)

    return call
