"""Elastic weight consolidation: a quadratic around θ̂ holds the weights that matter (Kirkpatrick et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from amends.curvature import Diagonal, Empirical, Kind, Kronecker
from amends.editors import Adam, Climber, FixedPoint, Mode
from amends.methods.base import EXACT, Method, Remember, chosen
from amends.posteriors import Gaussian
from amends.remember import Laplace, Running

FORGET = FixedPoint(steps=100, rate=0.05, damping=10.0)  # how evidence is taken out from under a diagonal quadratic


def quadratic(
    remember: Remember,
    climb: Climber | None,
    unlearn: Climber | None,
    bounded: bool,
    hold: float = 0.0,
    forget: Climber = FORGET,
) -> Method:
    """The edit that all quadratics share; they differ in what is remembered."""
    return Method(remember, Mode(**chosen(climb=climb), unlearn=unlearn or forget, bounded=bounded), hold)


def ewc(
    prior: float = 0.0,
    kind: Kind = EXACT,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
    hold: float = 0.0,
    gamma: float | None = None,
) -> Method:
    """Elastic weight consolidation with the exact diagonal Fisher of all of D.

    The Fisher is that of the model's own predictions, as Kirkpatrick et al. define it and exactly
    in expectation; `kind=Empirical()` takes the given labels instead, as the paper does. γ scales the
    quadratic by 2/γN: a larger one lets weights go further; None is 2/N, the objective as it is."""
    return quadratic(Laplace(Diagonal(kind, prior), gamma=gamma), climb, unlearn, bounded, hold)


def kfac_ewc(
    prior: float = 0.0,
    kind: Kind = EXACT,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
    hold: float = 0.0,
    gamma: float | None = None,
) -> Method:
    """EWC with a Kronecker-factored Fisher; γ as in `ewc`."""
    forget = replace(FORGET, damping=1.0)  # blocks know more of the curvature than a diagonal
    return quadratic(Laplace(Kronecker(kind, prior), gamma=gamma), climb, unlearn, bounded, hold, forget)


def ewc_as_printed(seed: int = 0, gamma: float | None = None) -> Method:
    """EWC with the paper's optimiser in both steps: Adam 1e-3, batches of 64, at most 100 epochs, stopped after 5
    without progress on 10 % of the query. Nothing guards what must not fall. γ as in `ewc`."""
    return _as_printed(ewc, seed, gamma)


def kfac_ewc_as_printed(seed: int = 0, gamma: float | None = None) -> Method:
    """`kfac_ewc` with the paper's optimiser, as in `ewc_as_printed`."""
    return _as_printed(kfac_ewc, seed, gamma)


def _as_printed(method: Callable[..., Method], seed: int, gamma: float | None) -> Method:
    printed = Adam(rate=1e-3, epochs=100, batch=64, every=None, seed=seed)
    made = method(kind=Empirical(), climb=printed, unlearn=printed, hold=0.1, gamma=gamma)
    return made._replace(patience=5, guarded=False)


def online_ewc(
    decay: float = 0.95,
    prior: float = 0.0,
    kind: Kind = EXACT,
    since: Gaussian | None = None,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
) -> Method:
    """EWC with one running Fisher: every edit fades it by `decay` before it adds its own.

    `since` is the posterior an earlier repair ended with (`Influence.edited`, or what `treatment`
    returns); the next one goes on from its Fisher, decay and prior, without going through D again."""
    remember = Laplace(Diagonal(kind, prior), decay=decay) if since is None else Running(since)
    return quadratic(remember, climb, unlearn, bounded)
