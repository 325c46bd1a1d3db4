"""Would another label have put the failures right?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from amends.errors import BadInput
from amends.evidence import Factor, derivative
from amends.likelihoods import Categorical
from amends.methods.base import Scorer
from amends.methods.solvers import checked, kronecker
from amends.posteriors import Curvature


@dataclass(frozen=True)
class Sufficiency:
    """E_{y'≠y} ∇log p(F)ᵀP⁻¹(∇log p(y'|x) − ∇log p(y|x)), positive is harmful: what log p(F) gains to
    first order when z alone is given another label, drawn from the model's belief without y.

    After the probability of sufficiency (Chakarov et al. 2016). Linear in the gradient at the
    outputs, so that one derivative along P⁻¹∇log p(F) serves all labels of all examples.
    """

    curvature: Curvature

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        theta, likelihood = train.network.params, train.network.likelihood
        if not isinstance(likelihood, Categorical):
            kind = type(likelihood).__name__
            raise BadInput(f"sufficiency needs the likelihood Categorical, got {kind}; use another method")
        gain = self.curvature(train, theta).solve(failures.value_and_grad(theta)[1])
        outputs, change = derivative(train.outputs, theta, gain)
        y = train.examples.y.to(outputs.device)
        given = y.to(outputs) if y.is_floating_point() else one_hot(y, outputs.shape[1]).to(outputs)
        return ((others(outputs, likelihood.shown(y)) - given) * change).sum(1)  # softmax(outputs) cancels


def others(outputs: Tensor, given: Tensor) -> Tensor:
    """p(y'|x, y' ≠ given); equal for all y' where the model is certain of the given label."""
    taken = one_hot(given, outputs.shape[1]).bool()
    certain = (outputs.softmax(1)[taken] == 1)[:, None]
    return outputs.masked_fill(certain, 0).masked_fill(taken, -torch.inf).softmax(1)


def sufficiency(solver: Curvature | None = None) -> Scorer:
    """What changing z's label alone would do for the failures (Chakarov et al. 2016), to first order."""
    return Sufficiency(checked(solver, partial(kronecker, damping=10.0)))
