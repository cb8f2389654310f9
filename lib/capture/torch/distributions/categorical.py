import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, inside


class Categorical(Distribution):
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is None:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
            self.probs = torch.softmax(self.logits, -1)
        else:
            self.probs = probs / probs.sum(-1, keepdim=True)
            self.logits = torch.log(inside(self.probs))
        self._num_events = self.probs.shape[-1]
        super().__init__(self.probs.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    param_shape = property(lambda self: self.probs.shape)
    mode = property(lambda self: self.probs.argmax(-1))

    def expand(self, batch_shape, _instance=None):
        return self._filled(Categorical(logits=self.logits.expand([*batch_shape, self._num_events])), _instance,
                            probs=self.probs.expand([*batch_shape, self._num_events]))

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        count = torch.Size(sample_shape).numel()
        return torch.multinomial(self.probs.reshape(-1, self._num_events), count, True).T.reshape(shape)

    def log_prob(self, value):
        value, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        return -(self.logits.clamp(min=torch.finfo(self.logits.dtype).min) * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = torch.arange(self._num_events).view([-1] + [1] * len(self._batch_shape))
        return values.expand([-1, *self._batch_shape]) if expand else values
