# torch.nn.quantized: of floats it has the operators that are modules so that they could be quantised.
import torch
from torch.nn import Module


class FloatFunctional(Module):
    def add(self, x, y):
        return torch.add(x, y)

    def add_scalar(self, x, y):
        return torch.add(x, y)

    def mul(self, x, y):
        return torch.mul(x, y)

    def mul_scalar(self, x, y):
        return torch.mul(x, y)

    def cat(self, x, dim=0):
        return torch.cat(x, dim=dim)

    def add_relu(self, x, y):
        return torch.relu(torch.add(x, y))

    def matmul(self, x, y):
        return torch.matmul(x, y)
