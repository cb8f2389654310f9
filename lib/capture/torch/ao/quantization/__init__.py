# torch.ao.quantization: the marks that say where a model will be quantised, which do nothing in a model of floats.
from torch.nn import Module


class QuantStub(Module):
    def __init__(self, qconfig=None):
        super().__init__()

    def forward(self, x):
        return x


class DeQuantStub(QuantStub):
    pass


class QuantWrapper(Module):
    def __init__(self, module):
        super().__init__()
        self.quant, self.dequant, self.module = QuantStub(), DeQuantStub(), module
        self.train(module.training)

    def forward(self, X):
        return self.dequant(self.module(self.quant(X)))
