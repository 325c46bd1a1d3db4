"""Treatments that do not identify, or only weakly."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from amends.curvature import Isotropic
from amends.editors import Afresh, Mode, Relabel, Step
from amends.editors.climb import Adam
from amends.errors import BadInput
from amends.methods.base import Method
from amends.methods.solvers import cg, checked
from amends.posteriors import Curvature
from amends.remember import Data, Laplace

SIZES = tuple(2.0**k for k in range(-4, 6))  # of γ = 1/N, tried one after the other


def fine_tune(
    rate: float = 1e-3,
    epochs: float = 10,
    batch: int = 64,
    pull: float = 0.0,
    learn: bool = False,
    kept: bool = True,
    relabel: bool = False,
    seed: int = 0,
) -> Method:
    """Goes on training on what is kept; with `learn`, on the query failures as well. With `relabel` the
    causes then come back under the label the model gives them by then, and it trains as long again.

    With `kept=False` on the failures alone, held near the start by `pull` (½ pull ‖θ − θ̂‖², the
    locality constraint of Zhu et al. 2020 as its Lagrangian)."""
    climb = Adam(rate=rate, epochs=epochs, batch=batch, every=10**9, decay=True, seed=seed, augmented=True)
    if kept:
        return Method(Data(pull), Relabel(climb) if relabel else Mode(climb, climb), learn=learn)
    if relabel:
        raise BadInput("causes are relabelled for training on D; fine_tune; leave kept=True, or relabel=False")
    if not learn:
        raise BadInput("neither what is kept nor the failures are learned from; fine_tune; set kept or learn")
    return Method(Laplace(Isotropic(max(pull, 1e-12))), Mode(climb, climb), learn=True, forget=False)


def newton(solver: Curvature | None = None, gamma: float | None = None, line_search: bool = False) -> Method:
    """Newton removal (Guo et al. 2020): one step of size γ, 1/N when None.

    With `line_search` the size is the one, from a sixteenth to 32 times γ, that the guard allows
    and that does most for the failures, where they are given."""
    return Method(Laplace(checked(solver, cg)), Step(gamma, SIZES if line_search else (1.0,)))


def retrain(
    rate: float = 1e-3,
    epochs: float = 20,
    batch: int = 64,
    start: nn.Module | Mapping[str, Tensor] | None = None,
    seed: int = 0,
) -> Method:
    """From scratch on what is kept: the slow reference. `start` are weights from before training;
    without them every layer draws its own anew."""
    climb = Adam(rate=rate, epochs=epochs, batch=batch, every=10**9, decay=True, seed=seed, augmented=True)
    return Method(Data(), Afresh(climb, start, seed))
