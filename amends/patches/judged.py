"""The verdict of a repair, made again for the weights that a patch leads to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from amends.algorithm.curve import ROUNDING, share
from amends.algorithm.objective import Objective
from amends.algorithm.sets import Outcome, Sets
from amends.algorithm.verdict import NOT, ON, PARTLY, REPAIRED, as_well
from amends.evaluation.statistics import BeforeAfter
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.settings import JUDGING

FIGURES = ("holdout", "remaining", "overall")


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges weights as a repair was judged: by its sets, its controls and what was to be kept. It says whether other
    weights would have had the same verdict; nothing is chosen by it. If the repair also learned from failures, the run
    tested forgetting alone against the controls, which learned nothing; these weights must pass that test too."""

    sets: Sets
    metrics: Mapping[str, Any]
    floor: float | None = None
    keep: Mapping[str, tuple[Factor, float]] | None = None  # sets to keep, and the accuracy each must end with

    def __call__(self, theta: Params) -> dict[str, Any]:
        """The verdict of these weights, and its figures before and after."""
        outcome = self.sets.outcome(theta)
        summary = outcome.summary
        p_value = self._p_value(outcome)
        verdict, why = self._verdict(outcome, summary, theta, p_value)
        figures = {name: summary[name] for name in FIGURES if summary[name] is not None}
        broken = 0 if outcome.remaining is None else outcome.remaining.broken
        counts = {"fixed": outcome.judging.fixed, "newly_broken": broken}
        test = {} if p_value is None else {"p_value": p_value}
        return {"verdict": verdict, **({"why": why} if why else {}), **figures, **counts, **test}

    @property
    def _objective(self) -> Objective:
        return Objective(self.sets.asked, self.metrics.get("broken_costs", 1.0))

    def _p_value(self, outcome: Outcome) -> float | None:
        """How likely luck alone gains as much over the stronger control: the larger for these weights and for
        forgetting alone, if the repair also learned. None if only the accuracies of the controls are known."""
        p_values = [self.metrics["p_value"]] if self.metrics.get("learned") and "p_value" in self.metrics else []
        for row in self.metrics.get("controls", {}).values():
            if "changes" in row:
                failures, right_ones = (_moves(getattr(outcome, on), row["changes"][on], row["refits"]) for on in ON)
                assert failures is not None
                p_values.append(self._objective.chance(failures, right_ones))
        return max(p_values, default=None)

    def _verdict(
        self, outcome: Outcome, summary: Mapping[str, Any], theta: Params, p_value: float | None
    ) -> tuple[str, str]:
        judged, rest = outcome.judging.summary, summary["remaining"]
        objective = self._objective
        worth = {k: objective.worth(judged[k], None if rest is None else rest[k]) for k in ("before", "after")}
        if worth["after"] <= worth["before"]:
            return NOT, "it breaks as much as it fixes"
        if self.floor is not None and rest is not None and rest["after"] < rest["before"] - self.floor - ROUNDING:
            return NOT, f"accuracy on remaining would be {rest['after']:.3f}"
        for name, (data, least) in (self.keep or {}).items():
            if (share(data, theta) or 0.0) < least - ROUNDING:
                return NOT, f"accuracy on {name} would fall below {least:.3f}"
        for name, row in self.metrics.get("controls", {}).items():
            on = row.get(self.sets.judged_on)
            if on is not None and worth["after"] <= objective.worth(on, None if rest is None else row.get("remaining")):
                return NOT, as_well(name)
        if p_value is not None and p_value > JUDGING.chance:
            return NOT, f"the gain over a control may be chance (p = {p_value:.2f})"
        if len(self.metrics.get("rounds", ())) > 1:  # of several groups: as they were judged one after the other
            return self.metrics["verdict"], ""
        return (REPAIRED if judged["after"] >= JUDGING.mostly else PARTLY), ""


def _moves(seen: BeforeAfter | None, control: Mapping[str, int], fits: int) -> np.ndarray | None:
    """For each example, in how many more fits it is right than in those of a control; copies count as one."""
    if seen is None or not len(seen):
        return None
    moves = fits * (seen.after.astype(np.int64) - seen.before)
    for at, more in control.items():
        moves[int(at)] -= more
    return seen.witnessed(moves)
