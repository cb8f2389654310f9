# torch.nn.utils.
from torch import _placeholder
from torch.nn.utils import rnn
from torch.nn.utils.clip_grad import (
    clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm)
from torch.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from torch.nn.utils.weight_norm import remove_weight_norm, weight_norm

__getattr__ = _placeholder.getter(__name__)
