# torch.autocast on the CPU: which operators compute in the lower type, which in float32, and which in the widest of their arguments.
#
# The lists are PyTorch's documented ones. Of operators that PyTorch makes of listed ones (einsum), the outer one stands
# here, since ours are whole. What is in no list computes in the types that it is given.
import functools

import _atenon

from torch import _dtypes
from torch._tensor import Tensor

_lower = frozenset("""
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc convolution _convolution bmm mm baddbmm addmm
    addbmm linear matmul linalg_matmul linalg_vecdot linalg_multi_dot chain_matmul tensordot inner prelu
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

_f32, _f64 = _dtypes.named["float32"], _dtypes.named["float64"]


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


def _target(name, dtype, arguments):
    if name in _lower or (name == "einsum" and sum(1 for _ in _tensors(arguments)) > 1):
        return dtype
    if name in _float32:
        return _f32
    if name in _widest:
        types = {tensor.dtype for tensor in _tensors(arguments)}
        return types.pop() if len(types) == 1 else _f32 if types else None
    return None


def _linear(dtype, x, weight, bias):
    return _atenon.call("aten::linear", *(value if value is None else _cast(value, dtype) for value in (x, weight, bias)))


def operator_call(dtype):
    """What the native module calls in the place of an operator."""
    def call(name, /, *args, **kwargs):
        base = name.removeprefix("aten::").partition(".")[0]
        if base in _recurrent:
            from torch._recurrent import written_out

            return written_out[base](functools.partial(_linear, dtype), *args, **kwargs)
        target = _target(base, dtype, (*args, *kwargs.values())) if "out" not in kwargs else None
        if target is not None:
            args = [_cast(value, target) for value in args]
            kwargs = {key: _cast(value, target) for key, value in kwargs.items()}
        return _atenon.call(name, *args, **kwargs)

    return call
