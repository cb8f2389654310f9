# The softmax over many classes of which rare ones stand in clusters (Grave et al., "Efficient softmax approximation for
# GPUs", 2017). PyTorch picks the rows of each cluster by their data; here all clusters are computed and gathered from,
# which gives the same numbers in a graph without branches.
import collections
import itertools

import torch
from torch.nn import functional as F
from torch.nn.modules.container import ModuleList, Sequential
from torch.nn.modules.linear import Linear
from torch.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = collections.namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        is_ascending = all(a < b for a, b in itertools.pairwise(cutoffs)) and min(cutoffs) > 0
        if not is_ascending or max(cutoffs) > n_classes - 1 or any(int(c) != c for c in cutoffs):
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                             "where each value is between 1 and n_classes-1")
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = cutoffs + [n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        where = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, hidden, bias=False, **where),
                                        Linear(hidden, classes, bias=False, **where)))

    def reset_parameters(self):
        self.head.reset_parameters()
        for to_hidden, to_classes in self.tail:
            to_hidden.reset_parameters()
            to_classes.reset_parameters()

    def forward(self, input, target):
        if target.dim() not in (0, 1):
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.dim() != target.dim() + 1:
            raise RuntimeError(f"{target.dim() + 1}D input tensor expected, got {input.dim()}D")
        output = self.log_prob(input).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return _ASMoutput(output, (-output).mean())

    def log_prob(self, input):
        head = F.log_softmax(self.head(input), dim=-1)
        parts = [head[..., :self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), dim=-1) + head[..., self.shortlist_size + i].unsqueeze(-1))
        return torch.cat(parts, dim=-1)

    def predict(self, input):
        return torch.argmax(self.log_prob(input), dim=-1)
