"""Keep the causes with another label: one that a person gave, or that the model predicts after forgetting theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from amends.editors.base import Editor, finer, open_ended
from amends.editors.climb import Climber
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.likelihoods import asked
from amends.posteriors import Posterior


@dataclass(frozen=True)
class Relabel:
    """Climbs without the deleted examples, then with them again, labelled as the model now predicts."""

    climb: Climber

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        yield posterior
        theta = posterior.mean
        for mean in self.climb(posterior.times(factor), theta):
            theta = mean
            yield posterior.moved(theta, factor)
        if len(factor.deleted):
            for mean in self.climb(posterior.times(factor + _as_seen(factor.deleted, theta)), theta):
                yield posterior.moved(mean, factor)


@dataclass(frozen=True, eq=False)
class Corrected:
    """Any editor. A deleted example with a new label is inserted again with that label in the same edit: evidence
    −log p(y|x,θ) + log p(y′|x,θ)."""

    editor: Editor
    labels: Mapping[int, Tensor]  # by the id of the example

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        return self.editor(posterior, self._whole(factor))

    def open_ended(self, posterior: Posterior, factor: Factor) -> bool:
        return open_ended(self.editor, posterior, self._whole(factor))

    def finer(self) -> Corrected | None:
        editor = finer(self.editor)
        return None if editor is None else replace(self, editor=editor)

    def _whole(self, factor: Factor) -> Factor:
        known = np.flatnonzero([int(i) in self.labels for i in factor.deleted.ids])
        if not len(known):
            return factor
        deleted = factor.deleted[known]
        return factor + _under(deleted, torch.stack([self.labels[int(i)] for i in deleted.ids]))


def _under(deleted: Factor, y: Tensor) -> Factor:
    """The deleted examples inserted with these targets. This is other evidence, so they get other ids."""
    examples = replace(deleted.examples.with_targets(y), ids=-1 - deleted.ids)
    return replace(deleted, examples=examples, weights=-deleted.weights)


def _as_seen(deleted: Factor, theta: Params) -> Factor:
    """The deleted examples inserted with the model's predictions as targets."""
    y = deleted.examples.y
    network = deleted.network
    predicted = deleted.map(lambda x, y: asked(network.likelihood, y).decide(network.outputs(theta, x)))
    if predicted.numel() != y.numel():
        raise BadInput("the model's predictions cannot be used as targets; relabel; remove the causes instead")
    return _under(deleted, predicted.to(y.device, y.dtype).reshape(y.shape))
