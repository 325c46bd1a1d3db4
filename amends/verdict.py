"""A verdict in words, from data that was not searched with, and the floors it must keep to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amends.curve import CAUSES, ROUNDING, CurvePoint
from amends.evaluation import Judged, mcnemar, right
from amends.factor import Factor
from amends.params import Params

REPAIRED, PARTLY, NOT = "repaired", "partly repaired", "not repaired"
FLOOR = 0.01  # what `remaining` may lose against the control that removes nothing, when the user does not say
ENOUGH = 0.5  # share of the holdout failures that must be right for "repaired"
TELLING = 20  # with fewer failures to judge with, a test says little either way, and the verdict says that


@dataclass(frozen=True)
class Floors:
    """The least share that must stay right: in the half of remaining that guards, in the half that
    judges, and in each set to keep. `slack` is the noise the judging half is allowed."""

    guard: float
    judge: float
    keep: tuple[float, ...]
    slack: float


def floors_of(nothing: CurvePoint, floor: float | None, before: list[float | None]) -> Floors:
    """From the shares right before, in the order of the fields (guard, judge, then each to keep).

    A floor the user gives counts from where the model was, and holds strictly; ours counts from the
    control that removes nothing, which moves too, and allows for noise.
    """
    allowed = FLOOR if floor is None else float(floor)
    start = [0.0 if share is None else share for share in before]
    if floor is None:
        start[:2] = [0.0 if share is None else share for share in (nothing.guard, nothing.remaining)]
    least = [share - allowed for share in start]
    return Floors(least[0], least[1], tuple(least[2:]), 1.64 if floor is None else 0.0)


def chance(judged: Factor, control: Params, after: Params) -> float:
    """Exact McNemar test of the repair against going on with nothing removed: how likely luck is."""
    pair = Judged(right(judged, control), right(judged, after))
    return mcnemar(pair.fixed, pair.broken)


def verdict_of(
    metrics: dict[str, Any],
    floors: Floors,
    chosen: CurvePoint | None,
    points: list[CurvePoint],
    tried: bool,
    learn: bool,
) -> tuple[str, str]:
    """In words, from what was not searched with."""
    on = "holdout" if metrics["holdout"]["n"] else "query"
    judged, rest = metrics[on], metrics["remaining"]
    if judged["before"] == 1.0:
        return NOT, "all of the failures are right already; were failures and remaining swapped?"
    if not tried:
        return NOT, "no training example stands against these failures: the data does not explain them"
    if chosen is None:
        return NOT, f"no number of removed examples keeps {floors.guard:.3f} of remaining and every set to keep right"
    if rest is not None and rest["n"]:
        noise = floors.slack * (max(0.0, floors.judge * (1 - floors.judge)) / rest["n"]) ** 0.5
        if rest["after"] < floors.judge - noise - ROUNDING:
            return NOT, f"only {rest['after']:.3f} of remaining would stay right, below {floors.judge:.3f}"
    for i, (after, least) in enumerate(zip(chosen.kept, floors.keep, strict=True)):
        if after < least - ROUNDING:
            return NOT, f"only {after:.3f} of keep[{i}] would stay right, below {least:.3f}"
    if metrics["overall"]["after"] <= metrics["overall"]["before"] or judged["after"] <= judged["before"]:
        return NOT, "removing these examples does not help: the data does not explain these failures"
    controls = [p for p in points if p.by != CAUSES and p.removed in (0, chosen.removed)]
    best = max((p.holdout if on == "holdout" else p.query) or 0.0 for p in controls)
    if not learn and judged["after"] <= best:
        return NOT, f"a control does as well ({best:.3f} of {on}): the data does not explain these failures"
    if not learn and metrics["p_value"] > 0.05 and judged["n"] >= TELLING:
        return NOT, f"the gain over removing nothing may be chance (p = {metrics['p_value']:.2f})"
    few = "" if judged["n"] >= TELLING else f", though {judged['n']} are too few to be sure"
    if judged["after"] >= ENOUGH:
        rest_says = "what worked was not looked at, since no remaining was given"
        if rest is not None:
            rest_says = "what worked still works"
        return REPAIRED, f"{judged['after']:.0%} of the {on} failures are right, and {rest_says}{few}"
    return PARTLY, f"{judged['after']:.0%} of the {on} failures are right, short of {ENOUGH:.0%}{few}"
