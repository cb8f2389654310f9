# Where libraries import infer_schema from.
from torch.library import infer_schema
