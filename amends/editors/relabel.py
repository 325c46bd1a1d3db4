"""Keep the causes, under the label that the model gives them once it has forgotten theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from amends.editors.climb import Climber
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.likelihoods import asked
from amends.posteriors import Posterior


@dataclass(frozen=True)
class Relabel:
    """Climbs without the deleted examples, then with them again, under the labels the model now predicts."""

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


def _as_seen(deleted: Factor, theta: Params) -> Factor:
    """The deleted examples inserted with the model's predictions as targets: other evidence, so other ids."""
    y = deleted.examples.y
    network = deleted.network
    said = deleted.map(lambda x, y: asked(network.likelihood, y).decide(network.outputs(theta, x)))
    if said.numel() != y.numel():
        raise BadInput("the model's predictions cannot be used as targets; relabel; remove the causes instead")
    said = said.to(y.device, y.dtype).reshape(y.shape)
    examples = replace(deleted.examples.with_targets(said), ids=-1 - deleted.ids)
    return replace(deleted, examples=examples, weights=-deleted.weights)
