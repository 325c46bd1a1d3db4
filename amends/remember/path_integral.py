"""Synaptic intelligence: how much each weight improved the fit during training (Zenke, Poole & Ganguli 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise

import torch

from amends.curvature import GGN, Diagonal
from amends.curvature.diagonal import DiagonalPrecision, normal_like
from amends.errors import BadInput, at_least
from amends.evidence.factor import Factor
from amends.evidence.params import Params, flatten, plus, scaled, zeros_like
from amends.posteriors import Gaussian
from amends.trace import Trace, batches, check_trace


@dataclass(frozen=True, eq=False)
class PathIntegral:
    """N(θ̂, (2cΩ)⁻¹), with Ωₖ = ωₖ / (Δₖ² + ξ): the rise of log p(D) due to weight k, over how far it moved.

    ωₖ is the work of weight k along the run, never below 0; Δₖ is the end of the run less its start; c is
    `strength`; ξ is `damping` times the mean of Δ². A path to the optimum of −½ Σ hₖθₖ² does the work
    ½ hₖΔₖ², so 2Ω is h: strength 1 is EWC with the exact diagonal.

    Without a trace the run is not known: the gradient of a trained model is about zero, and a model
    trained anew has other units. The work is then that of short straight runs back to θ̂, which start
    `noise` times the root mean square weight away in every coordinate.
    """

    trace: Trace | None = None
    strength: float = 1.0
    damping: float = 1e-3
    noise: float = 0.1
    epochs: int = 4
    batch: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("si", strength=(self.strength, 0.0), damping=(self.damping, 0.0))
        check_trace(self.trace, "si")

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Gaussian:
        mean = train.network.params
        gain, away = along(self.trace, train) if self.trace is not None else self._back(train)
        squared = {k: d**2 for k, d in away.items()}
        floor = self.damping * float(flatten(squared).mean())
        if not floor > 0:
            raise BadInput(
                "no weight moved along the trace, or damping is 0; si; pass a trace that moved, and a damping above 0"
            )
        omega = {k: gain[k].clamp(min=0) / (squared[k] + floor) for k in mean}
        precision = DiagonalPrecision(scaled(omega, 2 * self.strength))
        return Gaussian(mean, precision, Diagonal(GGN()), float(train.weights.sum()))

    def _back(self, train: Factor) -> tuple[Params, Params]:
        """The work of runs θ̂ ± δ → θ̂, each on one batch, and the size of δ.

        By the midpoint rule, exact on a quadratic. The two sides cancel what is left of the gradient at
        θ̂. Random signs of δ cancel the other weights in expectation, and move every weight equally far.
        In an epoch, every example is in one pair of runs. What does not cancel leaves some weights below 0;
        raising them to 0 alone would add to the work in all, which is known far better than that of one
        weight, so the others give as much back.
        """
        mean, noise = train.network.params, torch.Generator().manual_seed(self.seed)
        size = self.noise * (float((flatten(mean) ** 2).mean()) ** 0.5 or 1.0)
        gain, each = zeros_like(mean), -(-len(train) // self.batch)
        for positions in islice(batches(len(train), self.batch, self.seed), self.epochs * each):
            delta = {k: size * normal_like(v, noise).sign() for k, v in mean.items()}
            above, below = (train[positions].value_and_grad(plus(mean, delta, side))[1] for side in (0.5, -0.5))
            gain = {k: gain[k] + 0.5 * delta[k] * (below[k] - above[k]) / self.epochs for k in mean}
        raised = {k: v.clamp(min=0) for k, v in gain.items()}
        work, more = (float(flatten(v).double().sum()) for v in (gain, raised))
        gain = scaled(raised, work / more) if work > 0 else raised
        return gain, {k: torch.full_like(v, size) for k, v in mean.items()}


def along(trace: Trace, train: Factor) -> tuple[Params, Params]:
    """ωₖ = Σₜ gₖ(θₜ)(θₜ₊₁ − θₜ)ₖ and the displacement, g the gradient of log p(D).

    g is the gradient of the batch, times N/|S|. The step was made on the same batch, so the noise counts as
    work, as in the paper. Any optimiser may have made the step.
    """
    trace.check(train)
    network, gain = train.network, zeros_like(train.network.params)
    path = [s.theta for s in trace.steps] + [trace.end]
    for step, (here, there) in zip(trace.steps, pairwise(path), strict=True):
        _, grad = train[step.positions].value_and_grad(network.weights(here, "trace"))
        move, whole = network.weights(plus(there, here, -1.0), "trace"), len(train) / len(step.positions)
        gain = {k: gain[k] + whole * grad[k] * move[k] for k in gain}
    return gain, network.weights(plus(trace.end, path[0], -1.0), "trace")
