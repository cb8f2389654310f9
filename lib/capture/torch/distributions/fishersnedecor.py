import torch
from torch.distributions import constraints
from torch.distributions.distribution import Distribution, broadcast_all


class FisherSnedecor(Distribution):
    arg_constraints, support = {"df1": constraints.positive, "df2": constraints.positive}, constraints.positive

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self):
        df2 = self.df2.masked_fill(self.df2 <= 2, torch.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self):
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, torch.nan)

    @property
    def variance(self):
        df2 = self.df2.masked_fill(self.df2 <= 4, torch.nan)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def expand(self, batch_shape, _instance=None):
        return self._filled(FisherSnedecor(self.df1.expand(batch_shape), self.df2.expand(batch_shape)), _instance)

    def log_prob(self, value):
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        return ((half1 + half2).lgamma() - half1.lgamma() - half2.lgamma() + half1 * ratio.log() + (half1 - 1) * torch.log(value)
                - (half1 + half2) * torch.log1p(ratio * value))
