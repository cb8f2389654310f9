# Kullback-Leibler divergences, by the classes of both distributions.
import torch
from torch.distributions.bernoulli import Bernoulli
from torch.distributions.beta import Beta
from torch.distributions.categorical import Categorical
from torch.distributions.independent import Independent
from torch.distributions.normal import Normal
from torch.distributions.one_hot_categorical import OneHotCategorical
from torch.nn.functional import softplus

_registered = {}


def register_kl(type_p, type_q):
    def register(function):
        _registered[type_p, type_q] = function
        return function

    return register


def kl_divergence(p, q):
    for type_p in type(p).__mro__:
        for type_q in type(q).__mro__:
            if (type_p, type_q) in _registered:
                return _registered[type_p, type_q](p, q)
    raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    terms = torch.where(q.probs == 0, torch.inf, p.probs * (p.logits - q.logits))
    return torch.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    ones = torch.where(q.probs == 0, torch.inf, p.probs * (softplus(-q.logits) - softplus(-p.logits)))
    zeros = torch.where(q.probs == 1, torch.inf, (1 - p.probs) * (softplus(q.logits) - softplus(p.logits)))
    return torch.where(p.probs == 0, 0.0, ones) + torch.where(p.probs == 1, 0.0, zeros)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("the two count another number of axes as the event")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Beta, Beta)
def _beta(p, q):
    total_p, total_q = (d.concentration1 + d.concentration0 for d in (p, q))
    sizes = (q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
             - (p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()))
    return (sizes + (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
            + (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0) + (total_q - total_p) * torch.digamma(total_p))
