# torch.utils.data.dataloader: where PyTorch defines what torch.utils.data gives, and what its arguments are.
import typing

from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info

_worker_init_fn_t = typing.Callable[[int], None]
_collate_fn_t = typing.Callable[[list], typing.Any]
