"""A verdict in words, from data that was not searched with, and the floors it must keep to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from amends.algorithm.curve import NOTHING_LEARNED, ROUNDING, CurvePoint
from amends.evaluation.predictions import class_targets, labels, right
from amends.evaluation.statistics import (
    Judged,
    by_label,
    calibration,
    confusion,
    interval,
    interval_together,
    mcnemar,
    overall,
    paired,
    paired_together,
)
from amends.evidence.factor import Factor
from amends.evidence.params import Params

REPAIRED, PARTLY, NOT = "repaired", "partly repaired", "not repaired"
FLOOR = 0.01  # what `remaining` may lose against the control that removes nothing, when the user does not say
ENOUGH = 0.5  # share of the holdout failures that must be right for "repaired"
NOTICED = 0.02  # a fall of remaining that is told in figures
MOST_CLASSES = 100  # a table of more is no longer read
CHANCE = 0.05  # p of a test above which a gain may be luck
TELLING = 20  # with fewer failures to judge with, a test says little either way, and the verdict says that
OF_FEW, OF_BOTH = 0.125, 0.25  # p, in one direction, above which few failures, and they with what breaks, may be luck


@dataclass(frozen=True, eq=False)
class Keep:
    """For `keep`: a labelled set, and the `least` share of it that must be right in the end."""

    data: Any
    least: float


@dataclass(frozen=True)
class Floors:
    """The least share that must stay right: in the half of remaining that guards, in the half that
    judges, and in each set to keep, which have `names`. `slack` is the noise the judging half is allowed."""

    guard: float
    keep: tuple[float, ...]
    judge: float = 0.0
    slack: float = 0.0
    names: tuple[str, ...] = ()

    def judged(self, nothing: float | None, floor: float | None, before: float | None) -> Floors:
        """With the floor of the judging half, as that of the guard was laid."""
        start = (nothing if floor is None else before) or 0.0
        allowed = FLOOR if floor is None else float(floor)
        return replace(self, judge=start - allowed, slack=1.64 if floor is None else 0.0)


def floors_of(
    nothing: float | None, floor: float | None, before: list[float | None], kept: Mapping[str, float | None]
) -> Floors:
    """From the shares right before, of the guard and then of each set to keep (`kept`: by name the least of it
    that must be right, where the user says).

    A floor the user gives counts from where the model was, and holds strictly; ours counts from the
    control that removes nothing (`nothing`, of the guard), which moves too, and allows for noise.
    """
    allowed = FLOOR if floor is None else float(floor)
    start = [0.0 if share is None else share for share in before]
    if floor is None:
        start[0] = nothing or 0.0
    guard, *least = (share - allowed for share in start)
    asked = (low if said is None else float(said) for low, said in zip(least, kept.values(), strict=True))
    return Floors(guard, tuple(asked), names=tuple(kept))


@dataclass(frozen=True, eq=False)
class Judging:
    """The sets a repair is judged with, and how many failures and right examples the user gave."""

    query: Factor
    holdout: Factor
    others: Factor  # failures of groups that are not being repaired: only shown
    remaining: Factor | None
    failures: int
    right_ones: int

    @property
    def share(self) -> float:
        """Of the failures among all the user gave."""
        return self.failures / (self.failures + self.right_ones)

    @property
    def judging(self) -> Factor:
        """The failures the verdict is about."""
        return self.holdout if len(self.holdout) else self.query

    @cached_property
    def failed(self) -> Factor:
        """All of the failures that judge."""
        return self.holdout + self.others if len(self.others) else self.holdout

    def metrics(self, start: Params, after: Params, seed: int) -> dict[str, Any]:
        q, h, every = (Judged(right(f, start), right(f, after)) for f in (self.query, self.holdout, self.failed))
        rest = self.remaining
        r = None if rest is None else Judged(right(rest, start), right(rest, after))
        sets = {"query": q, "holdout": h} | ({} if r is None else {"remaining": r})
        sets = {name: s for name, s in sets.items() if len(s.before)}
        all_failed = every if len(every.before) else q
        parts = [(1.0, all_failed)] if r is None or not len(r.before) else [
            (self.share, all_failed), (1 - self.share, r)
        ]  # fmt: skip
        fixed, broken = (sum(n) for n in zip(*((p.fixed, p.broken) for _, p in parts), strict=True))
        return {
            "query": q.summary,
            "holdout": h.summary,
            "remaining": None if r is None else r.summary,
            "overall": overall(all_failed, r, self.failures, self.right_ones),
            "fixed": h.fixed,
            "newly_broken": 0 if r is None else r.broken,
            "intervals": {name: interval(float(s.after.mean()), len(s.after)) for name, s in sets.items()}
            | {"overall": interval_together(parts)},
            "changes": {name: paired(s.before, s.after, seed) for name, s in sets.items()}
            | {"overall": paired_together(parts, seed)},
            "p_values": {name: mcnemar(s.fixed, s.broken) for name, s in sets.items()}
            | {"overall": mcnemar(fixed, broken)},
            "fixed_at": np.flatnonzero(~h.before & h.after).tolist(),
            "broken_at": [] if r is None else np.flatnonzero(r.before & ~r.after).tolist(),
        }

    @cached_property
    def of_classes(self) -> list[Factor]:
        """What was judged, holdout and remaining, where its targets are classes; else nothing."""
        sets = [f for f in (self.failed, self.remaining) if f is not None and len(f)]
        return sets if all(class_targets(f) for f in sets) else []

    def confusion(self, start: Params, after: Params) -> dict[str, Any]:
        """Of what was judged, rows true and columns predicted; nothing where there are no classes or too many."""
        sets = self.of_classes
        count = sets[0].outputs(start).shape[-1] if sets else 0
        if not 0 < count <= MOST_CLASSES:
            return {}
        names = list(getattr(sets[0].examples, "classes", ()))
        before, now = (sum(confusion(f, theta, count) for f in sets) for theta in (start, after))
        shown = names if len(names) == count else [str(k) for k in range(count)]
        return {
            "confusion": {"classes": shown, "before": np.asarray(before).tolist(), "after": np.asarray(now).tolist()}
        }

    def classes(self, start: Params, after: Params) -> dict[str, dict[str, Any]]:
        """Every class of what was judged, holdout and remaining together; nothing where there are none."""
        sets = self.of_classes
        if not sets:
            return {}
        names = np.concatenate([labels(f) for f in sets])
        before, now = (np.concatenate([right(f, theta) for f in sets]) for theta in (start, after))
        return by_label(names, before, now)

    def calibration(self, start: Params, after: Params) -> dict[str, Any] | None:
        """Before and after, with failures and right examples in the proportion the user gave."""
        if self.remaining is None or not all(len(f) and class_targets(f) for f in (self.failed, self.remaining)):
            return None
        mixed = (self.failures / len(self.failed)) * self.failed
        mixed = mixed + (self.right_ones / len(self.remaining)) * self.remaining
        before, now = (calibration(mixed, theta) for theta in (start, after))
        return None if before is None else {"before": before, "after": now}


@dataclass(frozen=True, eq=False)
class Against:
    """The causes gone, against a control that was treated in the same way."""

    causes: CurvePoint
    control: CurvePoint
    judging: Factor
    remaining: Factor | None = None

    @cached_property
    def p_value(self) -> float:
        """Exact McNemar test of their first fits on the failures that judge: how likely luck is."""
        pair = self._pair(self.judging)
        return mcnemar(pair.fixed, pair.broken)

    @cached_property
    def ahead(self) -> float:
        """The same in one direction: how likely luck fixes so many more than it breaks."""
        return self._ahead(self.judging)

    @cached_property
    def whole(self) -> float:
        """With the right examples that judge: failures fixed by breaking about as many of them are no repair."""
        return self._ahead(self.judging, *([] if self.remaining is None else [self.remaining]))

    def _ahead(self, *sets: Factor) -> float:
        pair = self._pair(*sets)
        return mcnemar(pair.fixed, pair.broken) / 2 if pair.fixed > pair.broken else 1.0

    def _pair(self, *sets: Factor) -> Judged:
        where = self.judging.network.device
        thetas = ({k: v.to(where) for k, v in p.theta.items()} for p in (self.control, self.causes))
        return Judged(*(np.concatenate([right(s, theta) for s in sets]) for theta in thetas))


def verdict_of(
    metrics: dict[str, Any],
    floors: Floors,
    chosen: CurvePoint | None,
    against: list[Against],
    tried: bool,
    safe: bool = True,
) -> tuple[str, str]:
    """In words, from what was not searched with.

    That the causes matter is shown by forgetting them alone, against both controls; where that costs more
    of remaining than the floor, if only within noise, or few failures judge, what it fixes must outweigh what it
    breaks. Learning from the failures may then fix so many that no test could tell what the causes add; it must
    add something.
    """
    on = "holdout" if metrics["holdout"]["n"] else "query"
    judged, rest = metrics[on], metrics["remaining"]
    if judged["before"] == 1.0:
        return NOT, "all of the failures are right already; were failures and remaining swapped?"
    if not tried:
        return NOT, "no training example stands against these failures: the data does not explain them"
    if chosen is None and safe:
        return (
            NOT,
            "no number of removed examples gains over removing nothing: the data does not explain these failures",
        )
    if chosen is None:
        wanted = [f"{least:.3f} of {name}" for name, least in zip(floors.names, floors.keep, strict=True)]
        return (
            NOT,
            f"no number of removed examples keeps {' and '.join([f'{floors.guard:.3f} of remaining', *wanted])} right",
        )
    if rest is not None and rest["n"]:
        noise = floors.slack * (max(0.0, floors.judge * (1 - floors.judge)) / rest["n"]) ** 0.5
        if rest["after"] < floors.judge - noise - ROUNDING:
            return NOT, f"only {rest['after']:.3f} of remaining would stay right, below {floors.judge:.3f}"
    for name, after, least in zip(floors.names, chosen.fits[0].kept, floors.keep, strict=True):
        if after < least - ROUNDING:
            return NOT, f"only {after:.3f} of {name} would be right, below {least:.3f}"
    if metrics["overall"]["after"] <= metrics["overall"]["before"] or judged["after"] <= judged["before"]:
        return NOT, "removing these examples does not help: the data does not explain these failures"
    for pair in against:
        ours, theirs = (getattr(p, on) or 0.0 for p in (pair.causes, pair.control))
        if ours <= theirs:
            why = f"a control does as well ({pair.control.by}: {theirs:.3f} of {on})"
            return NOT, f"{why}: the data does not explain these failures"
        if pair.control.by == NOTHING_LEARNED:
            continue
        if judged["n"] < TELLING:
            if pair.ahead > OF_FEW or pair.whole > OF_BOTH:
                why = f"the gain over a control ({pair.control.by}) may be chance"
                return NOT, f"{why}: {judged['n']} failures are too few to tell, give {2 * TELLING} or more"
            continue
        if pair.p_value > CHANCE:
            return NOT, f"the gain over a control ({pair.control.by}) may be chance (p = {pair.p_value:.2f})"
        kept = pair.causes.remaining
        if kept is not None and kept < floors.judge - ROUNDING and pair.whole > CHANCE:
            why = f"forgetting leaves {kept:.3f} of remaining right, below {floors.judge:.3f}, and"
            return NOT, f"{why} beside a control ({pair.control.by}) breaks about as much as it fixes"
    few = "" if judged["n"] >= TELLING else f", though {judged['n']} are too few to be sure"
    if judged["after"] >= ENOUGH:
        rest_says = "what worked was not looked at, since no remaining was given"
        if rest is not None:
            rest_says = "what worked still works"
            if rest["after"] < rest["before"] - NOTICED:  # the floor counts from a control that fell too
                rest_says = f"{rest['after']:.1%} of what worked still works, within the floor"
        return REPAIRED, f"{judged['after']:.0%} of the {on} failures are right, and {rest_says}{few}"
    below = min(round(100 * judged["after"]), round(100 * ENOUGH) - 1)  # never as much as it is short of
    return PARTLY, f"{below}% of the {on} failures are right, short of {ENOUGH:.0%}{few}"
