# torch.version: the version whose behaviour we follow, and no accelerator.
__version__ = "2.13.0+cpu"
debug = False
cuda = hip = xpu = rocm = None
git_version = "unknown"
