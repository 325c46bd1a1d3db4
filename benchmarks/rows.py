"""The rows of the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from worlds import World

from amends import methods
from amends.curvature import GGN, Damped, Diagonal, Empirical, Part
from amends.editors.climb import Adam
from amends.methods.ratio import first_order
from amends.remember import Laplace
from amends.settings import DEFAULT

Rows = dict[str, dict[str, Any]]
WHOLE = "default, edits with all failures too"  # each member edits a third time, with all of the failures
BY_REPAIR = "default, weighed by what they repair"  # not by what they find
CURVED = 4000  # how many examples of D the curvature of a large model is measured on
COMMON = "functional on remaining, .01"  # most treatments remove the first causes of its ranking, times loss


@dataclass(frozen=True)
class Less(methods.Default):
    """The default with one part taken away, to see what that part contributes."""

    change: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def identifying(self, remaining: bool, large: bool = False, examples: int = 0) -> dict[str, Any]:
        return self.change(super().identifying(remaining, large, examples))


def otherwise(world: World, **parts: Any) -> methods.Default:
    """The default with other settings for identifying."""
    settings = DEFAULT.for_large() if world.large else DEFAULT
    return methods.Default(settings=replace(settings, identifying=replace(settings.identifying, **parts)))


def of_edits(**options: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The same members, with these options changed in those that edit."""
    return lambda ms: {n: m._replace(**options) if isinstance(m, methods.Method) else m for n, m in ms.items()}


def without(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda ms: {n: m for n, m in ms.items() if n not in names}


def of_a_part(world: World, curvature: Any) -> Any:
    return Part(curvature, CURVED) if world.large else curvature


def tuned(world: World, **options: Any) -> methods.Method:
    """Fine-tuning for ten epochs at 1e-3. With all of CIFAR-10, for as many epochs as the default, at a lower rate
    unless given."""
    if not world.large:
        return methods.fine_tune(**options)
    size = {"epochs": DEFAULT.forgetting.seen / len(world.wrong), "batch": 256, "rate": 3e-5}
    return methods.fine_tune(**{**size, **options})


IDENTIFYING: dict[str, Callable[[World], Any]] = {  # in the order of the table
    "random": lambda w: methods.random(),
    "loss": lambda w: methods.loss(),
    "self_confidence": lambda w: methods.self_confidence(),
    "self_confidence, out of fold": lambda w: methods.self_confidence(w.out_of_fold),
    "shapley, 100 permutations": lambda w: methods.shapley(permutations=100),
    "knn_shapley": lambda w: methods.knn_shapley(),
    "grad_dot": lambda w: methods.grad_dot(),
    "tracin, 10 checkpoints of the run": lambda w: methods.tracin(w.trace),
    "sgd_influence, recorded run": lambda w: methods.sgd_influence(w.trace),
    "sgd_influence, replay": lambda w: methods.sgd_influence(),
    "sgd_influence, as published": lambda w: methods.sgd_influence(corrected=False),
    "fisher_kernel": lambda w: methods.fisher_kernel(),
    "relatif": lambda w: methods.relatif(),
    "sufficiency": lambda w: methods.sufficiency(),
    "linear, gd, damping 1000": lambda w: methods.linear(methods.gd(damping=1000.0)),
    "linear, sa": lambda w: methods.linear(methods.sa()),
    "linear, cg": lambda w: methods.linear(methods.cg()),
    "linear, cg, damping 100": lambda w: methods.linear(methods.cg(damping=100.0)),
    "linear, cg, damping 1000": lambda w: methods.linear(methods.cg(damping=1000.0)),
    "linear, diagonal": lambda w: methods.linear(methods.diagonal()),
    "linear, kronecker": lambda w: methods.linear(of_a_part(w, methods.kronecker())),
    "linear, kronecker, damping 10": lambda w: methods.linear(of_a_part(w, methods.kronecker(damping=10.0))),
    "linear, ekfac": lambda w: methods.linear(methods.ekfac()),
    "linear, dense": lambda w: methods.linear(methods.dense()),
    "ewc as printed": lambda w: methods.ewc_as_printed(),
    "ewc, empirical Fisher": lambda w: methods.ewc(kind=Empirical()),
    "ewc": lambda w: methods.ewc()._replace(remember=Laplace(of_a_part(w, Diagonal(GGN())))),
    "kfac_ewc as printed": lambda w: methods.kfac_ewc_as_printed(),
    "kfac_ewc": lambda w: methods.kfac_ewc(),
    "online_ewc": lambda w: methods.online_ewc(),
    "si, recorded run": lambda w: methods.si(w.trace),
    "si, replay": lambda w: methods.si(),
    "vcl": lambda w: methods.vcl(),
    "ogd": lambda w: methods.ogd(),
    "functional on D, .1": lambda w: methods.functional(0.1, on_train=True, on_remaining=False),
    "functional on 200 memorable of D, .1": lambda w: methods.functional(0.1, on_remaining=False, memorable=200),
    COMMON: lambda w: methods.functional(0.01),
    "functional on both, .03": lambda w: methods.functional(0.03, on_train=True),
    "ewc + functional on remaining, .01": lambda w: methods.functional(0.01, with_ewc=True),
    "laplace_mc, diagonal": lambda w: methods.laplace_mc(Damped(Diagonal(GGN()), 1.0), draws=20, last_layer=False),
    "laplace_mc, diagonal, first order": lambda w: methods.laplace_mc(
        Damped(Diagonal(GGN()), 1.0), draws=20, exact=False, last_layer=False
    ),
    "laplace_mc, last layer, kronecker": lambda w: methods.laplace_mc(draws=20),
    "ensemble of ewc, 2 samples": lambda w: methods.ensemble(methods.ewc(), samples=2),
    "ensemble of ewc, 3 models": lambda w: methods.ensemble(methods.ewc(), models=w.others),
    "ensemble of functional, 3 models": lambda w: methods.ensemble(methods.functional(), models=w.others),
    "fine_tune on D and F": lambda w: methods.fine_tune(epochs=5),
    "default": lambda w: methods.default(),
    "default, r̃ for a score": lambda w: Less(change=of_edits(score=first_order)),
    "default, each failure as one": lambda w: Less(change=of_edits(mass=None)),
    "default, quick": lambda w: methods.default("quick"),
    "default, thorough": lambda w: methods.default("thorough"),
    WHOLE: lambda w: otherwise(w, trials=replace(DEFAULT.identifying.trials, whole=2000)),
    BY_REPAIR: lambda w: otherwise(w, trials=replace(DEFAULT.identifying.trials, enough_right=10**9)),
    "default, without the learned loss": lambda w: Less(change=without("learned loss")),
    "default, without functional": lambda w: Less(change=without("functional")),
    "default, without tangents": lambda w: Less(change=without("grad_dot", "linear")),
    "default, ewc alone": lambda w: Less("thorough", change=lambda ms: {"ewc": ms["ewc"]}),
    "default, functional + ewc alone": lambda w: Less(
        "thorough", change=lambda ms: {"functional + ewc": ms["functional + ewc"]}
    ),
}

CAUSES: dict[str, Callable[[World, dict[str, np.ndarray], int], np.ndarray]] = {
    "nothing": lambda w, scores, k: np.zeros(0, dtype=int),
    "random": lambda w, scores, k: np.random.default_rng(len(w.wrong)).permutation(len(w.wrong))[:k],
    "loss": lambda w, scores, k: np.argsort(-scores["loss"], kind="stable")[:k],
    "wrong": lambda w, scores, k: np.flatnonzero(w.wrong),
    "default": lambda w, scores, k: np.argsort(-scores["default"], kind="stable")[:k],
    "common": lambda w, scores, k: np.argsort(-scores[f"{COMMON}, times loss"], kind="stable")[:k],
}
RANKED_BY = {"loss": "loss", "default": "default", "common": COMMON}
TREATING: dict[str, tuple[str, Callable[[World], Any]]] = {  # all but the controls and the default's share causes
    "fine_tune, nothing removed": ("nothing", lambda w: tuned(w)),
    "fine_tune, removed at random": ("random", lambda w: tuned(w)),
    "fine_tune, highest loss removed": ("loss", lambda w: tuned(w)),
    "fine_tune, every wrong label removed": ("wrong", lambda w: tuned(w)),
    "fine_tune, every wrong label removed, rate .0001": ("wrong", lambda w: tuned(w, rate=1e-4)),
    "fine_tune, the default's causes": ("default", lambda w: tuned(w)),
    "fine_tune, the default's causes, on failures too": ("default", lambda w: tuned(w, learn=True)),
    "fine_tune, the default's causes, on failures and right ones too": ("default", lambda w: tuned(w, learn=True)),
    "fine_tune, the default's causes, relabelled": ("default", lambda w: tuned(w, relabel=True)),
    "fine_tune": ("common", lambda w: methods.fine_tune()),
    "fine_tune, on failures too": ("common", lambda w: methods.fine_tune(learn=True)),
    "fine_tune, on failures alone, pull 10": ("common", lambda w: methods.fine_tune(learn=True, kept=False, pull=10.0)),
    "retrain": ("common", lambda w: methods.retrain()),
    "newton, cg": ("common", lambda w: methods.newton()),
    "newton, cg, line search": ("common", lambda w: methods.newton(line_search=True)),
    "newton, ekfac, line search": ("common", lambda w: methods.newton(methods.ekfac(), line_search=True)),
    "ewc as printed": ("common", lambda w: methods.ewc_as_printed()),
    "ewc": ("common", lambda w: methods.ewc()),
    "ewc, small Adam steps": ("common", lambda w: methods.ewc(unlearn=Adam(rate=1e-4, epochs=20, every=5))),
    "ewc, bounded": ("common", lambda w: methods.ewc(bounded=True)),
    "kfac_ewc": ("common", lambda w: methods.kfac_ewc()),
    "kfac_ewc, bounded": ("common", lambda w: methods.kfac_ewc(bounded=True)),
    "online_ewc": ("common", lambda w: methods.online_ewc()),
    "si, recorded run": ("common", lambda w: methods.si(w.trace)),
    "vcl": ("common", lambda w: methods.vcl()),
    "ogd": ("common", lambda w: methods.ogd()),
    "functional on D, .1": ("common", lambda w: methods.functional(0.1, on_train=True, on_remaining=False)),
    "functional on both, 1": ("common", lambda w: methods.functional(1.0, on_train=True)),
    "functional on both, .1, bounded": ("common", lambda w: methods.functional(0.1, on_train=True, bounded=True)),
    "ensemble of ewc, 2 samples": ("common", lambda w: methods.ensemble(methods.ewc(), samples=2)),
}
ALIKE = "what is learned weighs as D does"
EVEN = methods.Default(settings=replace(DEFAULT, learning=replace(DEFAULT.learning, failure=1.0, right=1.0)))
REPAIRS: dict[str, dict[str, Any]] = {
    "by default": {},
    "only forgetting": {"learn": False},
    ALIKE: {"treat_with": EVEN},
}
