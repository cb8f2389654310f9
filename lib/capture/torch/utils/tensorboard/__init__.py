# torch.utils.tensorboard: training code's logs. As in PyTorch it is there where the package tensorboard is; a writer is a placeholder.
import importlib.util

from torch import _placeholder

if importlib.util.find_spec("tensorboard") is None:
    raise ModuleNotFoundError("No module named 'tensorboard'", name="tensorboard")

FileWriter, RecordWriter, SummaryWriter = (_placeholder.make(f"torch.utils.tensorboard.{name}") for name in ("FileWriter", "RecordWriter", "SummaryWriter"))
