# torch.multiprocessing is Python's, whose processes would share tensors.
from multiprocessing import *
