# torch.__config__: the settings of PyTorch's build that libraries look for. Of what is off, all that has a device.
def show():
    return "PyTorch built with:\n  - Build settings: TORCH_VERSION=2.13.0, USE_CUDA=0, USE_ROCM=OFF, USE_XPU=OFF, \n"


def parallel_info():
    return "ATen/Parallel:\n\tat::get_num_threads() : 1\n"
