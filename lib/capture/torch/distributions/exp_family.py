from torch.distributions.distribution import Distribution


class ExponentialFamily(Distribution):
    """For a library's own distributions; PyTorch takes the entropy of one without a formula from a derivative, and we refuse it."""
