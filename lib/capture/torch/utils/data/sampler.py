# torch.utils.data.sampler: where PyTorch defines what torch.utils.data gives.
from torch.utils.data import Sampler
