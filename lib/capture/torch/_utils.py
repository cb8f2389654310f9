# What libraries ask of PyTorch's private helpers, and what its archives name: how a pickle's tensors are made of storages.
import _atenon

is_compiling = _atenon.is_tracing
rebuilders = {"_rebuild_tensor_v2", "_rebuild_parameter", "_rebuild_parameter_with_state"}


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    made = storage.elements.as_strided(size, stride, storage_offset)
    made.requires_grad = requires_grad
    return made


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from torch.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    made = _rebuild_parameter(data, requires_grad, backward_hooks)
    made.__dict__.update(state)
    return made
