# What PyTorch's modules for other devices, compilers and processes answer on a machine that has none of them.
#
# One table: module -> name -> value. A function that always answers the same is `answer(value)`; one that does nothing and
# returns its argument, also when it is a decorator's factory, is `unchanged`. What is neither here nor a file of ours
# but in names.txt is a placeholder.
import collections
import contextlib
import datetime
import functools
import re
import types
import typing

import _atenon

from torch import _modes, _operators, overrides
from torch._scaler import GradScaler
from torch._tensor import parse_to


def answer(value=None):
    def constant(*args, **kwargs):
        return value

    return constant


def unchanged(*args, **kwargs):
    """A decorator without effect, with or without arguments."""
    if args and callable(args[0]):
        return args[0]
    return lambda function: function


def assume_constant_result(function):
    """What the function gives for the example inputs is promised for all: the program assumes it of numbers, and checks."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        return _atenon.assume_example(result) if _atenon.is_tracing() else result

    return call


# torch._C._nn is aten with what parses arguments.
_nn = type(_operators.aten)("aten")
_nn._parse_to = parse_to


class nothing(contextlib.ContextDecorator):
    """A context manager and decorator without effect; it accepts anything."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False


class _DispatchMode:
    def __enter__(self):
        raise overrides.no_dispatch(type(self))

    def __exit__(self, *exception):
        pass


def _no_device(type):
    return {
        "is_available": answer(False), "device_count": answer(0), "is_initialized": answer(False), "is_bf16_supported": answer(False),
        "is_current_stream_capturing": answer(False), "synchronize": answer(), "empty_cache": answer(), "manual_seed": answer(),
        "manual_seed_all": answer(), "seed": answer(), "seed_all": answer(), "current_device": answer(0), "set_device": answer(),
        "memory_allocated": answer(0), "memory_reserved": answer(0), "max_memory_allocated": answer(0),
        "max_memory_reserved": answer(0), "reset_peak_memory_stats": answer(), "reset_max_memory_allocated": answer(),
        "get_rng_state_all": answer([]), "set_rng_state_all": answer(), "default_generators": (), "device": nothing,
        "OutOfMemoryError": MemoryError, "stream": nothing, "device_of": nothing, "is_built": answer(False), "get_arch_list": answer([]), "_is_compiled": answer(False),
    }


class _Flags:
    """torch.backends.cuda.matmul and its like: attributes that may be set and mean nothing here."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False
    fp32_precision = "none"


_Dual = collections.namedtuple("UnpackedDualTensor", ["primal", "tangent"])  # no tensor has a tangent: make_dual is refused

# What a kernel of a GPU is asked about; all of them answer no.
_SDPAParams = collections.namedtuple("_SDPAParams", ["query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa"])


def _backend(available):
    return {"is_available": answer(available), "enabled": available, "benchmark": False, "deterministic": False,
            "allow_tf32": False, "flags": nothing, "set_flags": answer((False,)), "is_built": answer(available),
            "fp32_precision": "none", "version": answer(None)}


_table = {
    "torch.cuda": {**_no_device("cuda"), "_initialized": False},
    "torch.cuda.amp": {"autocast": nothing, "GradScaler": GradScaler},
    "torch.cuda.random": {"get_rng_state_all": answer([]), "set_rng_state_all": answer(), "manual_seed_all": answer()},
    "torch.xpu": _no_device("xpu"),
    "torch.mps": _no_device("mps"),
    "torch.mtia": _no_device("mtia"),
    "torch.accelerator": {"is_available": answer(False), "device_count": answer(0), "current_accelerator": answer(),
                          "synchronize": answer(), "set_device_index": answer(), "current_device_index": answer(0)},
    "torch.backends": {"fp32_precision": "none"},
    "torch.backends.cuda": {**_backend(False), "matmul": _Flags(), "is_flash_attention_available": answer(False),
                            "flash_sdp_enabled": answer(False), "mem_efficient_sdp_enabled": answer(False),
                            "math_sdp_enabled": answer(True), "cudnn_sdp_enabled": answer(False),
                            "enable_flash_sdp": answer(), "enable_mem_efficient_sdp": answer(), "enable_math_sdp": answer(),
                            "enable_cudnn_sdp": answer(), "sdp_kernel": nothing, "SDPAParams": _SDPAParams,
                            "can_use_flash_attention": answer(False), "can_use_efficient_attention": answer(False),
                            "can_use_cudnn_attention": answer(False)},
    "torch.backends.cudnn": {**_backend(False), "rnn": _Flags(), "conv": _Flags()},
    "torch.backends.mps": {**_backend(False), "is_macos_or_newer": answer(False), "is_macos13_or_newer": answer(False)},
    "torch.backends.mkl": _backend(False),
    "torch.backends.mkldnn": _backend(False),
    "torch.backends.openmp": _backend(False),
    "torch.backends.nnpack": _backend(False),
    "torch.backends.opt_einsum": {**_backend(False), "strategy": None},
    "torch.backends.xnnpack": {"enabled": False},
    "torch.backends.quantized": {"engine": "none", "supported_engines": ["none"]},
    "torch.backends.cpu": {"get_cpu_capability": answer("DEFAULT")},
    "torch.distributed": {"is_available": answer(False), "is_initialized": answer(False), "get_rank": answer(0),
                          "get_world_size": answer(1), "barrier": answer(), "is_torchelastic_launched": answer(False),
                          "is_nccl_available": answer(False), "is_gloo_available": answer(False),
                          "is_mpi_available": answer(False)},
    "torch.distributed.tensor": {},
    "torch.compiler": {"is_compiling": _atenon.is_tracing, "is_exporting": _atenon.is_tracing, "is_dynamo_compiling": answer(False),
                       "disable": unchanged, "allow_in_graph": unchanged, "assume_constant_result": assume_constant_result,
                       "substitute_in_graph": unchanged, "reset": answer(), "cudagraph_mark_step_begin": answer(),
                       "set_stance": nothing, "nested_compile_region": unchanged, "compile": unchanged,
                       "list_backends": answer([])},
    "torch._dynamo": {"is_compiling": _atenon.is_tracing, "disable": unchanged, "allow_in_graph": unchanged,
                      "disallow_in_graph": unchanged, "assume_constant_result": assume_constant_result, "reset": answer(),
                      "graph_break": answer(), "mark_dynamic": answer(), "maybe_mark_dynamic": answer(), "mark_static": answer(),
                      "mark_static_address": answer(), "forbid_in_graph": unchanged, "run": unchanged},
    "torch._dynamo.exc": {"TorchDynamoException": RuntimeError, "UserError": _atenon.CaptureError, "Unsupported": _atenon.CaptureError},
    "torch._dynamo.utils": {"is_compile_supported": answer(False)},
    "torch._dynamo.eval_frame": {"is_dynamo_supported": answer(False)},
    "torch._dynamo._trace_wrapped_higher_order_op": {"TransformGetItemToIndex": nothing},
    "torch._logging": {"set_logs": answer()},
    "torch.utils._python_dispatch": {"TorchDispatchMode": _DispatchMode},
    "torch.onnx": {"is_in_onnx_export": answer(False)},
    "torch.profiler": {"record_function": nothing, "profile": nothing},
    "torch.autograd.forward_ad": {"UnpackedDualTensor": _Dual, "unpack_dual": lambda tensor, *, level=None: _Dual(tensor, None)},
    "torch.autograd.anomaly_mode": {"detect_anomaly": nothing, "set_detect_anomaly": nothing},
    "torch.autograd.profiler": {"record_function": nothing, "profile": nothing},
    "torch.utils.hooks": {},
    "torch.utils.deterministic": {"fill_uninitialized_memory": True},
    "torch.utils.cpp_extension": {
        "CUDA_HOME": None, "CUDNN_HOME": None, "ROCM_HOME": None, "HIP_HOME": None, "SYCL_HOME": None, "ROCM_VERSION": None, "IS_HIP_EXTENSION": False,
    },
    "torch.utils.data._utils.collate": {"default_collate_fn_map": {}, "np_str_obj_array_pattern": re.compile("[SaUO]")},
    "torch.utils.data._utils.worker": {"_worker_info": None},
    "torch.distributed.constants": {"default_pg_timeout": datetime.timedelta(minutes=30)},
    "torch.utils._triton": {"has_triton": answer(False), "has_triton_package": answer(False)},
    "torch.utils._config_module": {"install_config_module": answer()},
    "torch._C": {"_nn": _nn, "_VariableFunctions": _operators.aten, "_log_api_usage_once": answer(), "_get_tracing_state": answer(), "_is_tracing": answer(False), "_jit_set_profiling_executor": answer(False),
                 "_jit_set_profiling_mode": answer(False), "_jit_set_texpr_fuser_enabled": answer(), "_get_accelerator": answer(),
                 "_has_mkldnn": False, "_has_cuda": False, "_is_torch_function_enabled": overrides.is_torch_function_enabled,
                 "DisableTorchFunction": overrides.DisableTorchFunction,
                 "DisableTorchFunctionSubclass": overrides.DisableTorchFunctionSubclass,
                 "_disabled_torch_function_impl": overrides.disabled_torch_function,
                 "_disabled_torch_dispatch_impl": overrides.disabled_torch_dispatch,
                 "_get_privateuse1_backend_name": answer("privateuseone"),
                 "_are_functorch_transforms_active": _modes.are_transforms_active},
    "torch.jit.annotations": {**{f"BroadcastingList{i}": list for i in range(1, 7)}, "List": list, "Optional": typing.Optional,
                              "Tuple": tuple, "Dict": dict},
    "torch.jit._state": {"_enabled": types.SimpleNamespace(enabled=True), "disable": answer(), "enable": answer()},
    "torch.fx.experimental._config": {},
    "torch._inductor.config": {},
    "torch._dynamo.config": {"patch": nothing, "cache_size_limit": 8, "recompile_limit": 8, "suppress_errors": False, "verbose": False,
                             "capture_scalar_outputs": False, "optimize_ddp": True},
}


def of(module):
    """The names that a module without a file of ours defines."""
    return _table.get(module, {})
