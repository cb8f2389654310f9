# torch.utils.tensorboard: training libraries import the writer; as in PyTorch, only where tensorboard is installed.
import importlib.util

from torch import _placeholder

if importlib.util.find_spec("tensorboard") is None:
    raise ModuleNotFoundError("No module named 'tensorboard'")

FileWriter = _placeholder.make("torch.utils.tensorboard.FileWriter")
SummaryWriter = _placeholder.make("torch.utils.tensorboard.SummaryWriter")
