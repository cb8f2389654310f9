# torch.utils.data.dataset: where PyTorch defines what torch.utils.data gives.
from torch.utils.data import Dataset, IterableDataset, TensorDataset
