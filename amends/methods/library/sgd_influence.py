"""What leaving an example out of the training run would have changed (Hara, Nitanda & Maehara 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from amends.curvature import CG
from amends.curvature.solvers import largest
from amends.errors import at_least
from amends.evidence import Factor, Params, derivative, plus, transformable, zeros_like
from amends.methods.base import Scorer
from amends.trace import Trace, check_trace, replay


@dataclass(frozen=True, eq=False)
class SGDInfluence:
    """log p(F|θ⁻ᶻ) − log p(F|θ) to first order, θ⁻ᶻ the end of the run without z; positive is harmful.

    θ⁻ᶻ − θ ≈ −Σₜ Π_{s>t}(I + ηₛHₛ) ηₜ/|Sₜ| ∇log p(z|θₜ), with Hₜ the mean Hessian of log p on batch t.
    It is gone through backwards, from u = ∇log p(F) at the end: z in Sₜ gets −ηₜ/|Sₜ| u·∇log p(z|θₜ),
    then u ← u + ηₜ Hₜu. A run of another optimiser counts as SGD with its recorded rates.

    `corrected=False` divides the update of u by |Sₜ| once more, as the script the authors published
    for their section 7.2 does, so that curvature hardly counts. With no trace the run is a replay
    that goes on from the trained model, at a twentieth of the inverse of the largest curvature
    unless a rate is given: single batches are steeper than their mean, and where rate times
    curvature nears 1 the examples of the last batches are weighed unlike the rest.
    """

    trace: Trace | None = None
    corrected: bool = True
    epochs: float = 1.0
    batch: int = 64
    rate: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("sgd_influence", epochs=(self.epochs, 0.0), batch=(self.batch, 1), rate=(self.rate or 0.0, 0.0))
        check_trace(self.trace, "sgd_influence")

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        network = train.network
        trace = self.trace or self._replayed(train)
        trace.check(train)
        scores = torch.zeros(len(train), dtype=torch.float64)
        u = failures.value_and_grad(network.weights(trace.end, "trace"))[1]
        for step in reversed(trace.steps):
            part, theta, each = (
                train[step.positions],
                network.weights(step.theta, "trace"),
                step.rate / len(step.positions),
            )
            _, change = derivative(part.per_example, theta, u)
            lost = part.weights.cpu() * change.to("cpu", torch.float64)
            scores.index_add_(0, torch.as_tensor(step.positions), lost, alpha=-each)
            again = 1 if self.corrected else len(step.positions)
            u = plus(u, hessian_product(part, theta, u), each / again)
        return scores

    def _replayed(self, train: Factor) -> Trace:
        theta, rate = train.network.params, self.rate
        if rate is None:
            rate = 0.05 * float(train.weights.sum()) / largest(CG(prior=1e-12)(train, theta))
        return replay(train, theta, epochs=self.epochs, batch=self.batch, rate=rate, seed=self.seed)


def hessian_product(factor: Factor, theta: Params, vector: Params) -> Params:
    """∇²(Σ wᵢ log p(zᵢ|θ)) v, by two backward passes."""
    network, total = factor.network, zeros_like(theta)
    for _, x, y, w in factor.tiles():
        with torch.enable_grad(), transformable():
            live = {k: v.detach().requires_grad_() for k, v in theta.items()}
            value = (w * network.log_prob(live, x, y)).sum()
            grad = torch.autograd.grad(value, list(live.values()), create_graph=True, materialize_grads=True)
            slope = torch.stack([(g * vector[k]).sum() for k, g in zip(live, grad, strict=True)]).sum()
            if slope.requires_grad:  # not where log p is linear in θ
                parts = torch.autograd.grad(slope, list(live.values()), materialize_grads=True)
                total = {k: t.add_(p) for (k, t), p in zip(total.items(), parts, strict=True)}
    return total


def sgd_influence(
    trace: Trace | None = None,
    corrected: bool = True,
    epochs: float = 1.0,
    batch: int = 64,
    rate: float | None = None,
    seed: int = 0,
) -> Scorer:
    """What leaving z out of the recorded steps would have changed (Hara et al. 2019).

    `corrected=False` divides by the batch twice, as the authors' script does. Without a trace, of a
    replay that goes on from θ̂ for `epochs`."""
    return SGDInfluence(trace, corrected, epochs, batch, rate, seed)
