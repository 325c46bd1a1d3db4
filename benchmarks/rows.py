"""Which rows the tables have, and how one seed of a setting makes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from settings import World, outputs

import amends
from amends import methods
from amends.algorithm import choose
from amends.algorithm.identify import identify
from amends.algorithm.options import Options
from amends.algorithm.problem import Problem
from amends.algorithm.treat import treat
from amends.committee import decide as committee
from amends.curvature import GGN, Damped, Diagonal, Empirical, Part
from amends.editors.climb import Adam
from amends.errors import NotConverged, OutOfMemory
from amends.evaluation.rankings import average_precision, precision_at, ranking_area
from amends.evidence.prepare import prepare
from amends.methods.library.default import CURVED, SEEN
from amends.methods.ratio import first_order
from amends.progress import Progress
from amends.remember import Laplace

Rows = dict[str, dict[str, Any]]
ONE_EDIT = "default, without what halves find"  # every member scores by its edit with all of the failures alone
BY_REPAIR = "default, heard by what they repair"  # not by what they set apart; the loss repairs nothing
AS_SCORED = "default, without how sure"  # harm counts the same, whatever scores as high; what the loss is sure of does
COMMON = "functional on remaining, .01"  # whose ranking, times loss, every treatment removes


@dataclass(frozen=True)
class Less(methods.Default):
    """The default with something taken away, to see what it was good for."""

    change: Callable[[dict[str, Any]], dict[str, Any]]

    def identifying(self, remaining: bool, large: bool = False) -> dict[str, Any]:
        return self.change(super().identifying(remaining, large))


def of_edits(**options: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The same members, but for this in those that edit."""
    return lambda ms: {n: m._replace(**options) if isinstance(m, methods.Method) else m for n, m in ms.items()}


def without(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda ms: {n: m for n, m in ms.items() if n not in names}


def of_a_part(world: World, curvature: Any) -> Any:
    return Part(curvature, CURVED) if world.large else curvature


def tuned(world: World, **options: Any) -> methods.Method:
    """Ten epochs at 1e-3; with all of CIFAR-10, those of the default, at a tenth of the rate unless told."""
    if not world.large:
        return methods.fine_tune(**options)
    size = {"epochs": SEEN / len(world.wrong), "batch": 256, "rate": 3e-5}
    return methods.fine_tune(**{**size, **options})


IDENTIFYING: dict[str, Callable[[World], Any]] = {  # in the order of the table
    "random": lambda w: methods.random(),
    "loss": lambda w: methods.loss(),
    "self_confidence": lambda w: methods.self_confidence(),
    "self_confidence, out of fold": lambda w: methods.self_confidence(w.out_of_fold),
    "shapley, 100 permutations": lambda w: methods.shapley(permutations=100),
    "grad_dot": lambda w: methods.grad_dot(),
    "tracin, 10 checkpoints of the run": lambda w: methods.tracin(w.trace),
    "sgd_influence, replay": lambda w: methods.sgd_influence(),
    "sgd_influence, as published": lambda w: methods.sgd_influence(corrected=False),
    "fisher_kernel": lambda w: methods.fisher_kernel(),
    "relatif": lambda w: methods.relatif(),
    "sufficiency": lambda w: methods.sufficiency(),
    "linear, gd, damping 1000": lambda w: methods.linear(methods.gd(damping=1000.0)),
    "linear, sa": lambda w: methods.linear(methods.sa()),
    "linear, cg": lambda w: methods.linear(methods.cg()),
    "linear, cg, damping 1000": lambda w: methods.linear(methods.cg(damping=1000.0)),
    "linear, diagonal": lambda w: methods.linear(methods.diagonal()),
    "linear, kronecker": lambda w: methods.linear(of_a_part(w, methods.kronecker())),
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
    "default, r̃ for a score": lambda w: Less(of_edits(score=first_order)),
    "default, each failure as one": lambda w: Less(of_edits(mass=None)),
    ONE_EDIT: lambda w: methods.default(),
    BY_REPAIR: lambda w: methods.default(),
    AS_SCORED: lambda w: methods.default(),
    "default, without loss": lambda w: Less(without("loss")),
    "default, without tangents": lambda w: Less(without("grad_dot", "linear")),
    "default, ewc alone": lambda w: Less(lambda ms: {"ewc": ms["ewc"]}),
    "default, functional + ewc alone": lambda w: Less(lambda ms: {"functional + ewc": ms["functional + ewc"]}),
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
TREATING: dict[str, tuple[str, Callable[[World], Any]]] = {  # the same causes for all but controls and the default's
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
REPAIRS: dict[str, dict[str, Any]] = {"by default": {}, "only forgetting": {"learn": False}, ALIKE: {}}


def one_seed(world: World, skip: Callable[[str], bool], rows: Rows, store: Callable[[Rows], None], alone: bool) -> Rows:
    """Every row of the three tables; those already in `rows` are not made again. Seconds are kept if `alone`."""
    rows["base"] = {"accuracy": world.accuracy, "wrong": int(world.wrong.sum()), "fitted": fitted(world),
                    "failures": len(world.sets["query"][1]) + len(world.sets["holdout"][1])}  # fmt: skip
    size = {"batch_size": 256 if world.large else 1024}
    given = {"remaining": world.sets["guard"], **size}
    scores: dict[str, np.ndarray] = {}
    known: dict[str, tuple[Any, float]] = {}
    if world.large and wanted(rows, skip):  # what a repair begins with, and is not searched for again
        known["default"] = timed(lambda: first_half(world, size))
    treatments = {
        name: way for name, way in TREATING.items()
        if f"treat: {name}" not in rows and not skip(f"treat: {name}") and (way[0] != "wrong" or world.wrong.any())
    }  # fmt: skip
    needed = {RANKED_BY[by] for by, _ in treatments.values() if by in RANKED_BY}
    for name, make in IDENTIFYING.items():
        if name not in needed and (f"identify: {name}" in rows or skip(f"identify: {name}")):
            continue
        method = make(world)
        begun = None if name in needed else known.get(name)  # it has seen failures that judge treatments here
        try:
            with otherwise(name):
                found, seconds = begun or timed(
                    lambda m=method: identify(world.net, world.train, world.sets["query"], method=m, **given)
                )
        except (NotConverged, OutOfMemory) as e:
            rows[f"identify: {name}"] = {"refused": str(e)}
            continue
        weighed = found.scores if name.startswith("default") else found.raw * -found.before
        scores |= {name: found.scores, f"{name}, times loss": weighed}
        if not world.wrong.any():
            continue
        row = {"AP": average_precision(found.scores, world.wrong), "AUC": ranking_area(found.scores, world.wrong),
               "P@100": precision_at(100, found.scores, world.wrong),
               "AP × loss": average_precision(weighed, world.wrong)}  # fmt: skip
        row |= {"seconds": seconds} if alone else {}
        if begun is None and found.edited is not None and finite_edit(method):
            row |= world.accuracies(found.train.network.module_with(found.edited.mean, world.net))
        rows.setdefault(f"identify: {name}", row)
        store(rows)
    for name, (by, make) in treatments.items():
        if skip(f"treat: {name}") or RANKED_BY.get(by, "random") not in {*scores, "random"}:
            continue
        causes, method = CAUSES[by](world, scores, round(world.share * len(world.wrong))), make(world)
        taught = joined(world, "query", "guard") if name.endswith("right ones too") else world.sets["query"]
        with half(world):
            model, seconds = timed(
                lambda c=causes, m=method, f=taught: treat(world.net, world.train, c, failures=f, method=m, **given)
            )
        rows[f"treat: {name}"] = {**world.accuracies(model), **({"seconds": seconds} if alone else {})}
        store(rows)
    repairs(world, skip, rows, store, alone, size, known.get("default"))
    return rows


def otherwise(name: str) -> Any:
    """What the default does differently in this row."""
    if name == ONE_EDIT:
        return patch.object(committee, "replicated", itemgetter(0))
    if name == AS_SCORED:
        return patch.object(committee, "sure", lambda heard, like: 1.0)
    return patch.object(committee, "ENOUGH", float("inf")) if name == BY_REPAIR else nullcontext()


def wanted(rows: Rows, skip: Callable[[str], bool]) -> list[str]:
    return [name for name in REPAIRS if f"repair: {name}" not in rows and not skip(f"repair: {name}")]


def first_half(world: World, size: dict[str, int]) -> Any:
    """The influence a repair begins with: what judges stays unread."""
    asked = to_repair(world, size)
    given = prepare(
        world.net, None, None, size.get("batch_size", 256), train=world.train, failures=asked["failures"],
        remaining=asked["remaining"],
    )  # fmt: skip
    with torch.no_grad():
        return Problem.of(given, Options(holdout=asked["holdout"])).search((), Progress()).influence


def to_repair(world: World, size: dict[str, int]) -> dict[str, Any]:
    """What a user would give, cut into halves of the sizes the other rows have."""
    failures, right_ones = joined(world, "query", "holdout"), joined(world, "guard", "remaining")
    share = len(world.sets["holdout"][1]) / len(failures[1])
    return {"failures": failures, "remaining": right_ones, "holdout": share, **size}


def repairs(
    world: World, skip: Callable[[str], bool], rows: Rows, store: Callable[[Rows], None], alone: bool,
    size: dict[str, int], found: tuple[Any, float] | None,
) -> None:  # fmt: skip
    """The third table, from what was `found` with its seconds where that is known."""
    known = {} if found is None else {"identify_with": found[0].identified}
    for name in wanted(rows, skip):
        options = {**to_repair(world, size), **known, **REPAIRS[name]}
        weights = patch.multiple(choose, FAILURE=1.0, RIGHT=1.0) if name == ALIKE else nullcontext()
        with half(world), weights:
            result, seconds = timed(lambda o=options: amends.repair(world.net, world.train, **o))
        m = result.metrics
        rows[f"repair: {name}"] = {k: m[k]["after"] for k in ("query", "holdout", "remaining", "overall")} | {
            "removed": m["removed"], "repaired": float(m["verdict"] != "not repaired"),
            "of them wrong": float(world.wrong[result.removed].mean()) if m["removed"] else 0.0,
            "verdict": f"{m['verdict']}: {m['reason']}", "learned": m["learned"],
        } | ({"seconds": seconds + (found[1] if found else 0.0)} if alone else {})  # fmt: skip
        store(rows)


def joined(world: World, *names: str) -> tuple[torch.Tensor, ...]:
    return tuple(torch.cat(part) for part in zip(*(world.sets[k] for k in names), strict=True))


def half(world: World) -> Any:
    """bfloat16 where autocast allows, while weights are tuned; identifying does not take part in it."""
    on = world.large and world.train[0].is_cuda
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False) if on else nullcontext()


def finite_edit(method: Any) -> bool:
    return not isinstance(getattr(method, "editor", None), type(methods.grad_dot().editor))


def fitted(world: World) -> float:
    """The share of the wrong labels the model gives back."""
    if not world.wrong.any():
        return 0.0
    x, y = world.train
    with torch.no_grad():
        return float((outputs(world.net, x).argmax(1) == y).cpu().numpy()[world.wrong].mean())


def timed(f: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    out = f()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return out, time.perf_counter() - start
