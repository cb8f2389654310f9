# Clipping of gradients, which Atenon never has.
__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _refuse(name):
    def function(*args, **kwargs):
        raise NotImplementedError(f"torch.nn.utils.{name} is not supported: Atenon compiles inference")

    function.__name__ = name
    return function


clip_grad_norm, clip_grad_norm_, clip_grad_value_ = map(_refuse, ("clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"))
clip_grads_with_norm_, get_total_norm = _refuse("clip_grads_with_norm_"), _refuse("get_total_norm")
