"""Scores without a finite edit: linear influence, recorded runs, and what people compare with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from amends import baselines
from amends.curvature import Damped, Diagonal, Empirical, Isotropic
from amends.editors import Tangent
from amends.methods.base import Method, Scorer
from amends.methods.solvers import cg, checked, kronecker
from amends.posteriors import Curvature
from amends.remember import Laplace
from amends.trace import Trace


def linear(solver: Curvature | None = None, gamma: float | None = None) -> Method:
    """Linear influence (Koh & Liang 2017) with any solver, `cg()` unless told; γ scales every score alike."""
    return Method(Laplace(checked(solver, cg)), Tangent(gamma))


def grad_dot() -> Method:
    """−∇log p(F)·∇log p(z): linear influence without curvature."""
    return Method(Laplace(Isotropic()), Tangent())


def fisher_kernel(damping: float = 0.1) -> Method:
    """−Σ over failures of the Fisher kernel ∇log p(f)ᵀ F̂⁻¹ ∇log p(z), with the diagonal of the
    empirical Fisher (Khanna et al. 2019)."""
    return Method(Laplace(Damped(Diagonal(Empirical()), damping)), Tangent())


def relatif(solver: Curvature | None = None, parameters: bool = False) -> Scorer:
    """Linear influence relative to how far an example moves the model at all (Barshan et al. 2020):
    its own influence on itself, or with `parameters` the length of its step."""
    return baselines.RelatIF(checked(solver, kronecker), "parameters" if parameters else "loss")


def tracin(
    checkpoints: Trace | Sequence[Mapping[str, Tensor]] | None = None, rates: Sequence[float] | None = None
) -> Scorer:
    """Gradient products summed over checkpoints (Pruthi et al. 2020); without any, over the model alone."""
    return baselines.TracIn(checkpoints, rates)


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
    return baselines.SGDInfluence(trace, corrected, epochs, batch, rate, seed)


def shapley(permutations: int = 20, ridge: float = 1.0, tolerance: float = 0.01, seed: int = 0) -> Scorer:
    """Data Shapley on a small head over the model's features (Ghorbani & Zou 2019)."""
    return baselines.Shapley(permutations, ridge, tolerance, seed)


def sufficiency(solver: Curvature | None = None) -> Scorer:
    """What changing z's label alone would do for the failures (Chakarov et al. 2016), to first order."""
    return baselines.Sufficiency(checked(solver, kronecker))


def loss() -> Scorer:
    """The example's own loss; does not look at the failures."""
    return baselines.Loss()


def self_confidence(probability: Any = None) -> Scorer:
    """1 − p(given label); `probability` takes out-of-sample values, as cleanlab advises."""
    return baselines.SelfConfidence(probability)


def random(seed: int = 0) -> Scorer:
    """A control."""
    return baselines.Random(seed)


def oracle(truth: Any) -> Scorer:
    """For experiments that know the truth."""
    return baselines.Oracle(truth)


def scores(given: Any) -> Scorer:
    """Scores from elsewhere, one for each training example, higher = more harmful."""
    return baselines.Given(given)
