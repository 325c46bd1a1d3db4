"""The Shapley value of an example for a vote of nearest neighbours, in closed form (Jia et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from amends.curvature.last import last_layer
from amends.errors import BadInput, at_least
from amends.evidence import Factor
from amends.likelihoods import Categorical
from amends.methods.base import Scorer


@dataclass(frozen=True)
class KNNShapley:
    """−φ(z), φ the mean over failures of the Shapley value of z when D votes on their label; positive is harmful.

    V(S) is the share of the failure's label among the `neighbours` nearest of S, as the last linear layer
    sees them. With α the order of D by distance, and agree(i) whether αᵢ has that label: φ(αₙ) = agree(n)/n,
    φ(αᵢ) = φ(αᵢ₊₁) + (agree(i) − agree(i+1))/k · min(k, i)/i.
    """

    neighbours: int = 10

    def __post_init__(self) -> None:
        at_least("knn_shapley", neighbours=(self.neighbours, 1))

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        likelihood, theta = train.network.likelihood, train.network.params
        if not isinstance(likelihood.family, Categorical):
            kind = type(likelihood.family).__name__
            raise BadInput(f"knn_shapley needs the likelihood Categorical, got {kind}; use another method")
        features, tried = (last_layer(data, theta)[0].double() for data in (train, failures))
        if features.shape[1] == 1:
            raise BadInput(
                "knn_shapley needs a last linear layer that trains, and the model has none; use another method"
            )
        given, wanted = (likelihood.family.shown(data.examples.y).to(features.device) for data in (train, failures))
        total = features.new_zeros(len(train))
        for one, label in zip(tried, wanted, strict=True):
            order = (features - one).square().sum(1).argsort(stable=True)
            total.index_add_(0, order, self._values((given[order] == label).double()))
        return -total / len(failures)

    def _values(self, agree: Tensor) -> Tensor:
        """φ from the nearest to the furthest."""
        n = len(agree)
        place = torch.arange(1, n + 1, dtype=agree.dtype, device=agree.device)
        steps = (agree[:-1] - agree[1:]) / self.neighbours * (place[:-1].clamp(max=self.neighbours) / place[:-1])
        last = agree[-1:] * min(self.neighbours, n) / (self.neighbours * n)
        return torch.cat([steps, last]).flip(0).cumsum(0).flip(0)


def knn_shapley(neighbours: int = 10) -> Scorer:
    """Data Shapley of a vote of nearest neighbours among the model's features, in closed form (Jia et al. 2019)."""
    return KNNShapley(neighbours)
