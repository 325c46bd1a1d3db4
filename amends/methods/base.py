"""What a method is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from amends.curvature import GGN
from amends.editors import PATIENCE, Climber, Editor
from amends.evidence import Factor
from amends.methods.ratio import first_order
from amends.posteriors import Posterior

EXACT = GGN()  # the curvature of the model's own predictions
Remember = Callable[[Factor, Factor | None], Posterior]  # (D, remaining) → q
Score = Callable[[Posterior, Posterior, Factor], Tensor]  # (q, q₊F, D) → what each example lost
Scorer = Callable[[Factor, Factor], Tensor]  # (D, F) → scores, without an edit


def plain(raw: Tensor, loss: Tensor) -> Tensor:
    """r̃ as it is, Eq. final_influence_score."""
    return raw


def by_loss(raw: Tensor, loss: Tensor) -> Tensor:
    """r̃ times the example's own loss: an example acted on the model only through its gradient,
    and a finite edit can push a well-fitted one far although it never pulled."""
    return raw * loss


class Method(NamedTuple):
    """What is remembered, remember(train, remaining) → posterior, and an editor of it.

    `hold` is the share of the failures kept out of an edit to decide where its path ends, once it has not
    improved there for `patience` steps. To identify: `mass` is what all of the failures weigh together,
    in sizes of D (None: each as one example); `score` is what each example lost between the two
    posteriors; `weigh` turns that and the example's loss (how far log p(z|θ̂) is below the best it could
    be) into its score. To treat: `forget` deletes the causes, `learn` inserts the failures. Where a
    deletion ends is decided by what it costs and fixes, or, unless `guarded`, by the failures in `hold` alone.
    """

    remember: Remember
    editor: Editor
    hold: float = 0.0
    weigh: Callable[[Tensor, Tensor], Tensor] = plain
    learn: bool = False
    forget: bool = True
    score: Score = first_order
    mass: float | None = None
    patience: int = PATIENCE
    guarded: bool = True

    def evidence(self, train: Factor, failures: Factor) -> Factor:
        """The failures, as heavy as this method takes them."""
        return failures if self.mass is None else (self.mass * len(train) / max(1, len(failures))) * failures


def weighted(method: Method) -> Method:
    """The same method, its scores times each example's own loss."""
    return method._replace(weigh=by_loss)


def chosen(**climbers: Climber | None) -> dict[str, Climber]:
    """Those a caller chose; an editor knows its own defaults."""
    return {name: climber for name, climber in climbers.items() if climber is not None}
