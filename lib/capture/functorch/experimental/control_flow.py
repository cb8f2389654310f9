# The older place of torch.cond and map.
from torch._higher_order_ops import cond, map

__all__ = ["cond", "map"]
