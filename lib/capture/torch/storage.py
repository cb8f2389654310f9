# torch.storage: what a pickle with tensors names. Tensors here have no storages that one could hold.


def _load_from_bytes(b):
    import io

    from torch.serialization import load

    return load(io.BytesIO(b), weights_only=False)
