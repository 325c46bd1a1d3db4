"""A verdict in words, from data that was not searched with: is the repair worth more than both controls?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np

from amends.algorithm.curve import CAUSES, NOTHING, RANDOM, ROUNDING, CurvePoint, Limits
from amends.algorithm.objective import Objective
from amends.errors import many
from amends.evaluation.words import judged_on
from amends.settings import JUDGING

REPAIRED, PARTLY, NOT = "repaired", "partly repaired", "not repaired"
CANNOT_TELL, NO_HELP, BREAKS = (
    "cannot tell", "the examples found do not help", "something would be broken",
)  # fmt: skip
REMOVING = {NOTHING: "removing nothing", RANDOM: "removing as many at random"}  # the controls
ON = ("judging", "remaining")  # the failures and the right examples that judge


@dataclass(frozen=True, eq=False)
class Against:
    """The causes gone, against a control that was treated in the same way; all of their fits, judged."""

    causes: CurvePoint
    control: CurvePoint
    objective: Objective

    @cached_property
    def p_value(self) -> float:
        """How likely luck alone gains as much."""
        failures, right_ones = (self._moves(on) for on in ON)
        assert failures is not None
        return self.objective.chance(failures, right_ones)

    @property
    def as_good(self) -> bool:
        """Whether the control is worth as much."""
        return self.gain <= 0

    @property
    def may_be_luck(self) -> bool:
        return self.p_value > JUDGING.chance

    @property
    def better(self) -> bool:
        """Whether the causes gone are worth more than the control, beyond chance: the test of the verdict."""
        return not self.as_good and not self.may_be_luck

    @cached_property
    def gain(self) -> float:
        """In worth, on average over the fits."""
        failures, right_ones = (
            [None if (seen := _right(p, on)) is None else float(seen.mean()) for p in (self.causes, self.control)]
            for on in ON
        )
        ours, theirs = (self.objective.worth(f or 0.0, r) for f, r in zip(failures, right_ones, strict=True))
        return ours - theirs

    def _moves(self, on: str) -> np.ndarray | None:
        """For each example in how many more fits it is right, of as many as both have in common; copies together."""
        ours, theirs = (_right(p, on) for p in (self.causes, self.control))
        if ours is None or theirs is None:
            return None
        fits, seen = lcm(len(ours), len(theirs)), getattr(self.causes.fits[0].outcome, on)
        return seen.witnessed(fits // len(ours) * ours.sum(0) - fits // len(theirs) * theirs.sum(0))


def _right(point: CurvePoint, on: str) -> np.ndarray | None:
    """Which of the failures, or of the right examples, that judge are right: one row a fit."""
    seen = [getattr(fit.outcome, on) for fit in point.fits]
    return None if seen[0] is None or not len(seen[0]) else np.stack([pair.after for pair in seen]).astype(np.int64)


def verdict_of(
    metrics: Mapping[str, Any],
    objective: Objective,
    limits: Limits,
    chosen: CurvePoint | None,
    against: list[Against],
    tried: bool,
    safe: bool = True,
) -> tuple[str, str]:
    """The verdict and its reason. A repair keeps the limits, is worth more than the model as it was, and more than both
    controls beyond chance. Where the failures were learned too, forgetting alone must pass that test, and learning must
    add something to it. A gain that is not shown is unlikely, or there are too few failures to tell."""
    judged = _judged(metrics)
    if not tried:
        return NOT, "nothing was found: no training example conflicts with the failures"
    if chosen is None and safe:
        return NOT, _unproven("none of the numbers tried did better than removing nothing", judged)
    broken = _broken(metrics, limits, chosen)
    if broken is not None or chosen is None:
        return NOT, f"{BREAKS}: {broken}"
    rest = metrics["remaining"]
    before, after = (objective.worth(judged[k], None if rest is None else rest[k]) for k in ("before", "after"))
    if after <= before and judged["after"] > judged["before"]:
        return NOT, f"{BREAKS}: removing the examples found breaks as much as it fixes"
    if after <= before:
        return NOT, _unproven("removing them fixes nothing", judged)
    controls = [pair for pair in against if pair.control.by != CAUSES]
    for pair in controls:
        if pair.as_good:
            return NOT, _unproven(as_well(pair.control.by), judged)
    least = max(controls, key=lambda pair: pair.p_value, default=None)
    if least is not None and least.may_be_luck:
        return NOT, _unproven(by_chance(least.control.by, least.p_value), judged)
    if any(pair.as_good for pair in against):  # learning as well, beside forgetting alone
        return NOT, "it gains nothing"
    return _repaired(metrics, judged)


def _judged(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The failures the verdict is about, with their name and how many of them are no copies of others."""
    on = judged_on(metrics)
    return {**metrics[on], "on": on, "witnesses": metrics["witnesses"][on]}


def as_well(control: str) -> str:
    """The reason where a control, removing `nothing` or as many at `random`, is worth as much."""
    return f"{REMOVING.get(control, control)} does as well"


def by_chance(control: str, p_value: float) -> str:
    """The reason where luck alone might gain as much over a control."""
    return f"the gain over {REMOVING.get(control, control)} may be chance (p = {p_value:.3f})"


def _unproven(what: str, judged: Mapping[str, Any]) -> str:
    """The reason where no repair was shown, and whether there were enough failures to show one."""
    n, copies = judged["witnesses"], judged["n"] - judged["witnesses"]
    if n >= JUDGING.enough_failures:
        return f"{NO_HELP}: {what}"
    few = f"only {many(n, 'failure judges', 'failures judge')}"
    few += f" ({many(copies, 'more is a copy', 'more are copies')})" if copies else ""
    return f"{CANNOT_TELL}: {what}, and {few}; give {2 * JUDGING.enough_failures} or more"


def _broken(metrics: Mapping[str, Any], limits: Limits, chosen: CurvePoint | None) -> str | None:
    """The limit that does not hold, in words."""
    if chosen is None:
        least = [("remaining", limits.guard), *zip(limits.names, limits.keep, strict=True)]
        wanted = " or ".join(f"{low:.3f} on {name}" for name, low in least if low is not None)
        return f"whatever number of examples is removed, accuracy falls below {wanted}"
    rest = metrics["remaining"]
    if rest is not None and rest["n"] and limits.judge is not None and rest["after"] < limits.judge - ROUNDING:
        return f"accuracy on remaining would be {rest['after']:.3f}, below {limits.judge:.3f}"
    for name, after, low in zip(limits.names, chosen.fits[0].kept, limits.keep, strict=True):
        if after < low - ROUNDING:
            return f"accuracy on {name} would be {after:.3f}, below {low:.3f}"
    return None


def _repaired(metrics: Mapping[str, Any], judged: Mapping[str, Any]) -> tuple[str, str]:
    on, rest = judged["on"], metrics["remaining"]
    n = judged["witnesses"]
    few = "" if n >= JUDGING.enough_failures else f", though {n} are too few to be sure"
    works = "what worked was not looked at, since no remaining was given"
    if rest is not None and rest["n"]:
        works = "all" if rest["after"] == 1.0 else f"{rest['after']:.1%}"
        works += " of what worked still works"
        if metrics["witnesses"].get("remaining", rest["n"]) < JUDGING.enough_failures:
            works += f" ({many(rest['n'], 'right example')}, too few to be sure)"
    if judged["after"] >= JUDGING.mostly:
        return REPAIRED, f"{judged['after']:.0%} of the {on} failures are right, and {works}{few}"
    below = min(round(100 * judged["after"]), round(100 * JUDGING.mostly) - 1)  # never as much as it is short of
    return PARTLY, f"{below}% of the {on} failures are right, short of {JUDGING.mostly:.0%}, and {works}{few}"
