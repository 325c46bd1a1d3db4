"""The example's own loss, which does not look at the failures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from amends.editors import follow, harmless
from amends.evidence import Factor
from amends.methods.base import Method, Scorer
from amends.posteriors import Posterior


@dataclass(frozen=True)
class Loss:
    """−log p(z|θ̂): what a label cleaner looks at."""

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return -train.per_example(train.network.params)


@dataclass(frozen=True)
class LearnedLoss:
    """How far log p(z|θ) is below the best any outputs could give, once the model has gone on training on D and on
    labels known to be right, each of those `weight` times as heavy: which labels of D it then still does not
    believe. It learned the known ones as it learned D's, so they say what right labels score.

    `trainings` are tried in turn, until one ends where right examples, which it learned, are believed no less than
    before."""

    trainings: tuple[Method, ...]
    weight: float

    def after(self, train: Factor, failures: Factor, right: Factor, log_p: Tensor | None = None) -> Posterior:
        """Where training ends. `log_p` of each right example before it may be known."""
        known = self.weight * (failures + right)
        return harmless([partial(_trained, training, train, known) for training in self.trainings], right, log_p)

    def score(self, after: Posterior, data: Factor) -> Tensor:
        log_p = after.rows(data.per_example).mean(0)
        return (data.network.likelihood.ceiling(data.examples.y).to(log_p) - log_p).clamp(min=0)


def _trained(training: Method, train: Factor, known: Factor) -> Posterior:
    return follow(training.editor(training.remember(train, None), known))


def loss() -> Scorer:
    """The example's own loss; does not look at the failures."""
    return Loss()
