"""A verdict in words, from data that was not searched with, and the floors it must keep to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from amends.algorithm.curve import NOTHING_LEARNED, ROUNDING, CurvePoint
from amends.algorithm.sets import Outcome
from amends.evaluation.statistics import BeforeAfter, mcnemar

REPAIRED, PARTLY, NOT = "repaired", "partly repaired", "not repaired"
FLOOR = 0.01  # what `remaining` may lose against the control that removes nothing, when the user does not say
ENOUGH = 0.5  # share of the holdout failures that must be right for "repaired"
NOTICED = 0.02  # a fall of remaining that is told in figures
CHANCE = 0.05  # p of a test above which a gain may be luck
TELLING = 20  # with fewer failures to judge with, a test says little either way, and the verdict says that
OF_FEW, OF_BOTH = 0.125, 0.25  # p, in one direction, above which few failures, and they with what breaks, may be luck


@dataclass(frozen=True)
class Floors:
    """The least share that must stay right: in the half of remaining that guards, in the half that
    judges, and in each set to keep, which have `names`. `slack` is the noise the judging half is allowed."""

    guard: float
    keep: tuple[float, ...]
    judge: float = 0.0
    slack: float = 0.0
    names: tuple[str, ...] = ()

    def with_judge(self, nothing: float | None, floor: float | None, before: float | None) -> Floors:
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
class Against:
    """The causes gone, against a control that was treated in the same way; both judged."""

    causes: CurvePoint
    control: CurvePoint

    @cached_property
    def p_value(self) -> float:
        """Exact McNemar test of their first fits on the failures that judge: how likely luck is."""
        return mcnemar(self._failures.fixed, self._failures.broken)

    @cached_property
    def ahead(self) -> float:
        """The same in one direction: how likely luck fixes so many more than it breaks."""
        return _one_sided(self._failures)

    @cached_property
    def whole(self) -> float:
        """With the right examples that judge: failures fixed by breaking about as many of them are no repair."""
        ours, theirs = (_outcome(p).remaining for p in (self.causes, self.control))
        rest = BeforeAfter(theirs.after, ours.after) if ours is not None and theirs is not None else None
        return _one_sided(self._failures if rest is None else self._failures.then(rest))

    @cached_property
    def _failures(self) -> BeforeAfter:
        return BeforeAfter(*(_outcome(p).judging.after for p in (self.control, self.causes)))


def _outcome(point: CurvePoint) -> Outcome:
    outcome = point.fits[0].outcome
    assert outcome is not None, "a point is judged before it is compared"
    return outcome


def _one_sided(pair: BeforeAfter) -> float:
    return mcnemar(pair.fixed, pair.broken) / 2 if pair.fixed > pair.broken else 1.0


def verdict_of(
    metrics: Mapping[str, Any],
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
        least = [("remaining", floors.guard), *zip(floors.names, floors.keep, strict=True)]
        wanted = [f"{low:.3f} on {name}" for name, low in least]
        return (
            NOT,
            f"whatever number of examples is removed, accuracy falls below {' or '.join(wanted)}",
        )
    if rest is not None and rest["n"]:
        noise = floors.slack * (max(0.0, floors.judge * (1 - floors.judge)) / rest["n"]) ** 0.5
        if rest["after"] < floors.judge - noise - ROUNDING:
            return NOT, f"accuracy on remaining would be {rest['after']:.3f}, below {floors.judge:.3f}"
    for name, after, least in zip(floors.names, chosen.fits[0].kept, floors.keep, strict=True):
        if after < least - ROUNDING:
            return NOT, f"accuracy on {name} would be {after:.3f}, below {least:.3f}"
    if metrics["overall"]["after"] <= metrics["overall"]["before"] or judged["after"] <= judged["before"]:
        return NOT, "removing these examples does not help: the data does not explain these failures"
    for pair in against:
        ours, theirs = (getattr(p, on) or 0.0 for p in (pair.causes, pair.control))
        if ours <= theirs:
            why = f"a control does as well (removed: {pair.control.by}; accuracy on {on} {theirs:.3f})"
            return NOT, f"{why}: the data does not explain these failures"
        if pair.control.by == NOTHING_LEARNED:
            continue
        if judged["n"] < TELLING:
            if pair.ahead > OF_FEW or pair.whole > OF_BOTH:
                why = f"the gain over a control (removed: {pair.control.by}) may be chance"
                return NOT, f"{why}: {judged['n']} failures are too few to tell; give {2 * TELLING} or more"
            continue
        if pair.p_value > CHANCE:
            return NOT, f"the gain over a control (removed: {pair.control.by}) may be chance (p = {pair.p_value:.2f})"
        kept = pair.causes.remaining
        if kept is not None and kept < floors.judge - ROUNDING and pair.whole > CHANCE:
            why = f"forgetting takes accuracy on remaining to {kept:.3f}, below {floors.judge:.3f}, and"
            return NOT, f"{why} breaks about as many examples as it fixes beside a control (removed: {pair.control.by})"
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
