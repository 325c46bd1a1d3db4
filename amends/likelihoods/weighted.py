"""Examples that count more or less than 1; their weights are kept with the targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from amends.errors import BadInput
from amends.likelihoods.base import Likelihood
from amends.likelihoods.categorical import Categorical
from amends.likelihoods.tokens import Tokens


def with_weights(targets: Any, weights: Any) -> Tensor:
    """Targets for `Weighted`: [n, 1 + ...] with the weight of each example in front."""
    y, w = torch.as_tensor(targets), torch.as_tensor(weights)
    if w.shape != y.shape[:1] or not bool((w.isfinite() & (w >= 0)).all()):
        raise BadInput(
            f"weights have shape {list(w.shape)} for targets {list(y.shape)}; give one number of 0 or more per target"
        )
    rows = y[:, None] if y.ndim == 1 else y
    dtype = torch.promote_types(w.dtype if w.is_floating_point() else torch.float32, torch.float32)
    return torch.cat([w[:, None].to(dtype), rows.to(dtype)], 1)


@dataclass(frozen=True)
class Weighted:
    """w · log p(y | outputs), as in a loss with sample weights. The targets of every set are
    `with_weights(y, w)`; failures and right examples commonly weigh 1.

    The weights are part of the targets, so tables by class are left out.
    """

    like: Likelihood = field(default_factory=Categorical)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return targets[:, 0].to(outputs.dtype) * self.like(outputs, self._plain(targets))

    def _plain(self, targets: Tensor) -> Tensor:
        rest = targets[:, 1:]
        return rest[:, 0].long() if isinstance(self.like.family, Categorical) and rest.shape[1] == 1 else rest

    def asked(self, targets: Tensor) -> Weighted:
        return _Told(self.like, targets[:, 0])

    def _weights(self, outputs: Tensor) -> Tensor:
        return torch.ones_like(outputs[:, 0])

    def belief(self, outputs: Tensor) -> Tensor:
        return torch.cat([self._weights(outputs)[:, None], self.like.belief(outputs)], 1)

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        """With weight √w, so that the squared gradient has weight w."""
        drawn = self.like.sample(outputs, uniform).to(outputs.dtype)
        return torch.cat([self._weights(outputs).sqrt()[:, None], drawn.reshape(len(drawn), -1)], 1)

    def root(self, outputs: Tensor) -> Tensor:
        return self._weights(outputs).sqrt()[:, None, None] * self.like.root(outputs)

    def metric(self, outputs: Tensor, vector: Tensor) -> Tensor:
        return self._weights(outputs)[:, None] * self.like.metric(outputs, vector)

    def right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.like.right(outputs, self._plain(targets))

    def decide(self, outputs: Tensor) -> Tensor:
        return self.like.decide(outputs)

    def shown(self, targets: Tensor) -> Tensor:
        return self.like.shown(self._plain(targets))

    def ceiling(self, targets: Tensor) -> Tensor:
        return targets[:, 0] * self.like.ceiling(self._plain(targets)).to(targets)

    @property
    def family(self) -> Weighted:
        return self

    def check(self, outputs: Tensor, targets: Tensor, name: str) -> None:
        if isinstance(self.like.family, Tokens):
            raise BadInput(f"tokens cannot have weights; {name}; weigh them in your own likelihood")
        if targets.ndim != 2 or targets.shape[1] < 2 or not targets.is_floating_point():
            raise BadInput(
                f"the targets of {name} have shape {list(targets.shape)}, expected a weight and a target each; "
                "pass likelihoods.with_weights(targets, weights)"
            )
        if bool((targets[:, 0] < 0).any()):
            raise BadInput(f"{name} has a negative weight; give weights of 0 or more")
        self.like.check(outputs, self._plain(targets), name)


@dataclass(frozen=True, eq=False)
class _Told(Weighted):
    weights: Tensor | None = None

    @property
    def family(self) -> Weighted:
        return Weighted(self.like)

    def _weights(self, outputs: Tensor) -> Tensor:
        assert self.weights is not None
        return self.weights.to(outputs)
