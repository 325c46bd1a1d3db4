"""The example's own loss, which does not look at the failures."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from torch import Tensor

from amends.editors import follow
from amends.errors import NonFinite
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

    Steps that are too long for a model make it forget what it knew. So `trainings` are tried in turn, until one ends
    where right examples, which it learned, are believed no less than before."""

    trainings: tuple[Method, ...]
    weight: float

    def after(self, train: Factor, failures: Factor, right: Factor) -> Posterior:
        """Where training ends."""
        *longer, last = self.trainings
        before = float(right.per_example(right.network.params).mean())
        for training in longer:
            with suppress(NonFinite):
                end = self._trained(training, train, failures + right)
                if float(end.rows(right.per_example).mean()) >= before:
                    return end
        return self._trained(last, train, failures + right)

    def _trained(self, training: Method, train: Factor, known: Factor) -> Posterior:
        return follow(training.editor(training.remember(train, None), self.weight * known))

    def score(self, after: Posterior, data: Factor) -> Tensor:
        log_p = after.rows(data.per_example).mean(0)
        return (data.network.likelihood.ceiling(data.examples.y).to(log_p) - log_p).clamp(min=0)


def loss() -> Scorer:
    """The example's own loss; does not look at the failures."""
    return Loss()
