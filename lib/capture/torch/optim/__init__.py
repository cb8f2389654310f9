# torch.optim: nothing is trained here; optimizers are held, and swa_utils has the averaged models that files keep beside the trained one.
from torch.optim.optimizer import Optimizer


def _make(name, default_rate):
    def __init__(self, params, lr=default_rate, *args, **options):
        Optimizer.__init__(self, params, {"lr": lr, **options})

    return type(name, (Optimizer,), {"__module__": "torch.optim", "__init__": __init__})


for _name, _default_rate in {"Adadelta": 1.0, "Adafactor": 1e-2, "Adagrad": 1e-2, "Adam": 1e-3, "AdamW": 1e-3, "Adamax": 2e-3, "ASGD": 1e-2, "LBFGS": 1, "Muon": 1e-3,
                             "NAdam": 2e-3, "RAdam": 1e-3, "RMSprop": 1e-2, "Rprop": 1e-2, "SGD": 1e-3, "SparseAdam": 1e-3}.items():
    globals()[_name] = _make(_name, _default_rate)

from torch.optim import lr_scheduler, swa_utils
