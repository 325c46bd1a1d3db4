"""A product of what may be remembered: the data itself, predictions, and a Gaussian."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from amends.data.examples import Inputs
from amends.evidence.factor import Factor, Term
from amends.evidence.params import Params
from amends.likelihoods import Tokens, asked
from amends.posteriors.gaussian import Gaussian


@dataclass(frozen=True, eq=False)
class Held(Factor):
    """Evidence whose targets are the network's own predictions at `mean`, computed anew for every batch: for
    sequences, a probability for each token at each place would not fit into memory."""

    mean: Params = field(default_factory=dict)

    def tiles(self) -> Iterator[tuple[slice, Inputs, Tensor, Tensor]]:
        for at, x, y, w in super().tiles():
            with torch.no_grad():
                belief = asked(self.network.likelihood, y).belief(self.network.outputs(self.mean, x))
            yield at, x, belief, w


@dataclass(frozen=True, eq=False)
class Anchored:
    """log q = data(θ) + Σ wᵢ E_{p(y|xᵢ,mean)} log p(y|xᵢ,θ) + Gaussian(θ), each part optional.

    `data` is the evidence itself: deleting C from it leaves D∖C, so climbing it is fine-tuning. On
    `inputs`, predictions are held (−KL(old ‖ new), up to a constant): deleting an example also
    stops holding its prediction.
    """

    mean: Params
    data: Factor | None = None
    inputs: Factor | None = None
    gaussian: Gaussian | None = None

    @property
    def settled(self) -> bool:
        return self.data is None

    def rows(self, f: Callable[[Params], Tensor]) -> Tensor:
        return f(self.mean)[None]

    def times(self, factor: Factor) -> list[Term]:
        terms: list[Term] = [factor if self.data is None else self.data + factor]
        if self.inputs is not None:
            held = self.inputs.without(factor.deleted.ids)
            family = held.network.likelihood.family  # a caller's own loss may not take soft targets
            held = replace(held, network=replace(held.network, likelihood=family))
            if isinstance(family, Tokens):
                terms.append(Held(held.network, held.examples, held.weights, held.batch, mean=self.mean))
            else:
                belief = family.belief(held.outputs(self.mean))
                terms.append(replace(held, examples=held.examples.with_targets(belief)))
        if self.gaussian is not None:
            terms.append(self.gaussian.times(factor)[0])
        return terms

    def begun(self, mean: Params) -> Anchored:
        """The same, for an edit that goes on from where another ended."""
        return replace(self, mean=mean)

    def moved(self, mean: Params, factor: Factor) -> Anchored:
        return Anchored(
            mean,
            None if self.data is None else self.data + factor,
            None if self.inputs is None else self.inputs.without(factor.deleted.ids),
            None if self.gaussian is None else self.gaussian.moved(mean, factor),
        )
