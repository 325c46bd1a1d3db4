"""Continual learning, for either step: insert the failures to identify, delete the causes to treat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from amends.curvature import GGN, Damped, Diagonal, Empirical, Kind, Kronecker
from amends.editors import Each, Mode, Variational
from amends.editors.climb import LBFGS, Adam, Ascent, Climber, FixedPoint
from amends.errors import BadInput
from amends.methods.base import Method
from amends.methods.ratio import first_order, predictive
from amends.posteriors import Curvature, Gaussian
from amends.remember import Gradients, Laplace, Members, PathIntegral, Predictions, Running
from amends.remember import Variational as FittedSpread
from amends.trace import Trace

EXACT = GGN()
FORGET = FixedPoint(steps=100, rate=0.05, damping=10.0)  # how evidence is taken out from under a diagonal quadratic


def _given(**climbers: Climber | None) -> dict[str, Climber]:
    """Those a caller chose; an editor knows its own defaults."""
    return {k: c for k, c in climbers.items() if c is not None}


def ewc(
    prior: float = 0.0,
    kind: Kind = EXACT,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
    hold: float = 0.0,
) -> Method:
    """Elastic weight consolidation with the exact diagonal Fisher of all of D, at its optimum.

    The Fisher is that of the model's own predictions, as Kirkpatrick et al. define it and exactly
    in expectation; `kind=Empirical()` takes the given labels instead, as the paper does."""
    editor = Mode(**_given(climb=climb), unlearn=unlearn or FORGET, bounded=bounded)
    return Method(Laplace(Diagonal(kind, prior)), editor, hold)


def ewc_as_printed(seed: int = 0) -> Method:
    """EWC with the paper's optimiser: Adam 1e-3, batches of 64, stopped on 10 % of the query."""
    printed = Adam(rate=1e-3, epochs=100, batch=64, every=1, seed=seed)
    return ewc(kind=Empirical(), climb=printed, unlearn=printed, hold=0.1)


def kfac_ewc(
    prior: float = 0.0,
    kind: Kind = EXACT,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
    hold: float = 0.0,
) -> Method:
    """EWC with a Kronecker-factored Fisher."""
    forget = unlearn or replace(FORGET, damping=1.0)  # blocks know more of the curvature than a diagonal
    return Method(Laplace(Kronecker(kind, prior)), Mode(**_given(climb=climb), unlearn=forget, bounded=bounded), hold)


def kfac_ewc_as_printed(seed: int = 0) -> Method:
    """The same with the paper's optimiser."""
    printed = Adam(rate=1e-3, epochs=100, batch=64, every=1, seed=seed)
    return kfac_ewc(kind=Empirical(), climb=printed, unlearn=printed, hold=0.1)


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
    return Method(remember, Mode(**_given(climb=climb), unlearn=unlearn or FORGET, bounded=bounded))


def si(
    trace: Trace | None = None,
    strength: float = 1.0,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
) -> Method:
    """Synaptic intelligence: a parameter matters by how much of the likelihood it gained in training.

    `trace` is a recorded run (`amends.trace.Recorder`); without one, a short replay from around θ̂."""
    editor = Mode(**_given(climb=climb), unlearn=unlearn or FORGET, bounded=bounded)
    return Method(PathIntegral(trace, strength), editor)


def functional(
    strength: float = 0.01,
    on_train: bool = False,
    on_remaining: bool = True,
    with_ewc: bool = False,
    memorable: int = 0,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
) -> Method:
    """Holds predictions instead of weights: −β N E KL(old ‖ new) over the chosen inputs.

    `memorable` stands for D by that many of its examples, those nearest to a boundary (Pan et al.
    2020). Unless told otherwise the edit ends after 40 steps: many weights give the same
    predictions, so a longer path gains little and magnifies rounding.
    """
    laplace = Laplace(Diagonal(GGN())) if with_ewc else None
    remember = Predictions(strength, on_train or memorable > 0, on_remaining, memorable, laplace)
    editor = Mode(climb or LBFGS(steps=40), bounded=bounded)
    return Method(remember, editor if unlearn is None else replace(editor, unlearn=unlearn))


def vcl(
    prior: float | None = None,
    draws: int = 8,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    seed: int = 0,
) -> Method:
    """Variational continual learning: a mean-field posterior with its spread fitted, mean and spread
    both edited; deleting is variational unlearning."""
    editor = Variational(draws, seed=seed, **_given(climb=climb, unlearn=unlearn))
    return Method(FittedSpread(prior, seed=seed), editor)


def ogd(
    memory: int = 200,
    every_output: bool = False,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    hold: float = 0.2,
    seed: int = 0,
) -> Method:
    """Orthogonal gradient descent: moves only across the gradients of `memory` examples of D.

    Nothing pulls back along the free directions, so a share of the query decides where it ends."""
    editor = Mode(climb or LBFGS(steps=40), unlearn or Ascent(steps=100, stride=0.002))
    return Method(Gradients(memory, every_output, seed), editor, hold)


def laplace_mc(
    curvature: Curvature | None = None,
    draws: int = 50,
    exact: bool = True,
    last_layer: bool = True,
    climb: Climber | None = None,
    seed: int = 0,
) -> Method:
    """r(z) from draws of q and q₊F: in its predictive form, or to first order (`exact=False`).

    The predictive form is refused when too few draws carry it, as they never did over all of the
    layers of a network; a larger damping or more draws help. With the same noise before and after."""
    chosen = curvature or Damped(Kronecker(GGN()), 1.0)
    remember = Laplace(chosen, last_layer=last_layer, draws=draws, seed=seed)
    return Method(remember, Mode() if climb is None else Mode(climb), score=predictive if exact else first_order)


def ensemble(
    of: Method | None = None, models: Sequence[Any] = (), samples: int = 4, scale: float = 0.1, seed: int = 0
) -> Method:
    """Any method over several models: the one given and `models` (modules or state dicts), or over
    `samples` draws around it. Scores are averaged.

    Treating models gives one module that averages their predictions; treating samples moves the
    model as far as they moved on average."""
    of = ewc() if of is None else of
    if not isinstance(of, Method):
        raise BadInput(f"of is {of!r}; ensemble; pass a method with an editor, for example amends.methods.ewc()")
    members = Members(of.remember, tuple(models), 0 if models else samples, scale, seed)
    return of._replace(remember=members, editor=Each(of.editor))
