# torch.utils.tensorboard: training code's logs. As in PyTorch it is there where the package tensorboard is; a writer is a placeholder.
import importlib.util

from torch import _placeholder

if importlib.util.find_spec("tensorboard") is None:
    raise ModuleNotFoundError("No module named 'tensorboard'", name="tensorboard")

from torch.utils.tensorboard.writer import FileWriter, SummaryWriter

RecordWriter = _placeholder.make("torch.utils.tensorboard.RecordWriter")
