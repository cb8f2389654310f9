# torch.autograd.Function: apply runs forward with a context that keeps what it is given.
from torch._constants import unchanged

once_differentiable = unchanged


class FunctionCtx:
    needs_input_grad = ()
    saved_tensors = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *args):
        pass

    mark_non_differentiable = mark_shared_storage = mark_dirty

    def set_materialize_grads(self, value):
        pass


class Function(FunctionCtx):
    generate_vmap_rule = False

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to use it "
                                  "with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError("To use autograd.Function with vmap, you must define its vmap staticmethod.")

    @classmethod
    def apply(cls, *args, **kwargs):
        context = FunctionCtx()
        context.needs_input_grad = (False,) * len(args)
        if cls.setup_context is Function.setup_context:
            return cls.forward(context, *args, **kwargs)
        output = cls.forward(*args, **kwargs)
        cls.setup_context(context, args, output)
        return output


class InplaceFunction(Function):
    pass


BackwardCFunction = FunctionCtx
