# torch.autograd: custom functions run their forward; gradients do not exist.
from torch._modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from torch._placeholder import Unsupported
from torch.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from torch.autograd.function import Function
from torch.autograd.variable import Variable


def grad(*args, **kwargs):
    raise Unsupported("torch.autograd.grad is not supported: Atenon compiles inference", "torch.autograd.grad")


def backward(*args, **kwargs):
    raise Unsupported("torch.autograd.backward is not supported: Atenon compiles inference", "torch.autograd.backward")
