# torch.utils.data: classes that libraries subclass; nothing is loaded here.
import typing


_Item = typing.TypeVar("_Item")


class Dataset(typing.Generic[_Item]):
    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")


class IterableDataset(Dataset[_Item]):
    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")


class TensorDataset(Dataset[_Item]):
    def __init__(self, *tensors):
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)


class Sampler(typing.Generic[_Item]):
    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError


class DataLoader(typing.Generic[_Item]):
    """Items of a data set in batches, for training."""

    def __init__(self, dataset, *args, **kwargs):
        raise NotImplementedError("torch.utils.data.DataLoader is not supported: Atenon compiles models, it does not train them")


def get_worker_info():
    return None
