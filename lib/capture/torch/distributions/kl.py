# Kullback-Leibler divergences, by the classes of both distributions.
import torch
from torch.distributions.bernoulli import Bernoulli
from torch.distributions.beta import Beta
from torch.distributions.categorical import Categorical
from torch.distributions.dirichlet import Dirichlet
from torch.distributions.exponential import Exponential
from torch.distributions.gamma import Gamma
from torch.distributions.independent import Independent
from torch.distributions.laplace import Laplace
from torch.distributions.normal import Normal
from torch.distributions.one_hot_categorical import OneHotCategorical
from torch.distributions.poisson import Poisson
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.uniform import Uniform
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


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    sizes = total_p.lgamma() - total_q.lgamma() - (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    apart = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return sizes + ((p.concentration - q.concentration) * apart).sum(-1)


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    return (q.concentration * (p.rate / q.rate).log() + q.concentration.lgamma() - p.concentration.lgamma()
            + (p.concentration - q.concentration) * p.concentration.digamma() + (q.rate - p.rate) * (p.concentration / p.rate))


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * torch.exp(-apart / p.scale) - 1


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    wider = ((q.high - q.low) / (p.high - p.low)).log()
    return wider.masked_fill((q.low > p.low) | (q.high < p.high), torch.inf)


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("the two are transformed in other ways")
    return kl_divergence(p.base_dist, q.base_dist)
