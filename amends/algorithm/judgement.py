"""From what was chosen to what is handed back: the verdict, and what else would do more good."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, log10

from amends.algorithm.choose import Choice
from amends.algorithm.curve import CAUSES, NOTHING, RANDOM, ROUNDING, CurvePoint, Fit, Limits, Rule
from amends.algorithm.objective import Objective
from amends.algorithm.sets import Outcome, Sets
from amends.algorithm.verdict import NOT, Against, verdict_of
from amends.settings import JUDGING


@dataclass(frozen=True, eq=False)
class Ending:
    """What is handed back, as judged; the model as it was where `final` is None."""

    final: CurvePoint | None
    outcome: Outcome
    verdict: str
    reason: str
    p_value: float


@dataclass(frozen=True, eq=False)
class Judgement:
    """Gives the verdict on a choice, from points that have been judged."""

    points: list[CurvePoint]
    sets: Sets
    objective: Objective
    limits: Limits

    def __call__(self, choice: Choice) -> Ending:
        """The verdict on a choice; where it is *not repaired*, the model as it was is handed back."""
        unchanged = self.sets.outcome(self.sets.query.network.params)
        final = None if choice.final is None else self.points[choice.final]
        outcome = unchanged if final is None else final.fits[0].outcome or unchanged
        against = self._against(choice)
        verdict, reason = verdict_of(
            outcome.summary, self.objective, self.limits, final, against, choice.tried, choice.safe
        )  # fmt: skip
        p_value = max((a.p_value for a in against if a.control.by != CAUSES), default=1.0)
        if verdict == NOT:
            return Ending(None, unchanged, verdict, reason, p_value)
        return Ending(final, outcome, verdict, reason, p_value)

    def in_doubt(self, choice: Choice, clear: float) -> bool:
        """Whether the gain over a control may still be luck. So strict a first look costs the second nothing: luck in
        either is hardly likelier than luck in the second alone (Haybittle 1971, Peto 1976)."""
        return any(one.p_value > clear for one in self._against(choice) if one.control.by != CAUSES)

    def of_both(self, choice: Choice) -> tuple[Choice, Ending]:
        """The verdict; where learning from the failures adds nothing, the verdict on forgetting alone."""
        ended = self(choice)
        if ended.verdict != NOT or choice.forgetting is None:
            return choice, ended
        forgot = self(choice.forgetting)
        if forgot.verdict == NOT:
            return choice, ended
        why = f"{forgot.reason}; learning from the failures too was tried, but {ended.reason}"
        return choice.forgetting, replace(forgot, reason=why)

    def _against(self, choice: Choice) -> list[Against]:
        return [Against(self.points[i], self.points[j], self.objective) for i, j in choice.against]

    def offer(self, ended: Ending) -> str:
        """What would do more good than what is handed back, and how to get it; in one line, or none."""
        return self._another_size(ended) or self._training_on(ended)

    def _training_on(self, ended: Ending) -> str:
        """Where nothing was repaired: what training on does alone, if it helps beyond chance and keeps the limits."""
        nothing, was = next((p for p in self.points if p.by == NOTHING), None), ended.outcome
        if ended.verdict != NOT or nothing is None or was.remaining is None or not len(was.remaining):
            return ""
        as_it_was = CurvePoint("as it was", 0, (Fit(was.here, 0.0, None, outcome=was),))
        compared, left = Against(nothing, as_it_was, self.objective), nothing.remaining or 0.0
        forbidden = self._below_floor(left) or not Rule(self.objective, self.limits).safe(nothing)
        if forbidden or not compared.better:
            return ""
        words = self._words(getattr(nothing, self.sets.judged_on) or 0.0, left)
        return f"training on with nothing removed would take {words}; amends.treat(model, train, []) does that"

    def _another_size(self, ended: Ending) -> str:
        """The size that fixes most, if it fixes clearly more than the model handed back but breaks more of what worked;
        with the `floor` or the `broken_costs` that would allow it."""
        judging, rest, on = ended.outcome.judging, ended.outcome.remaining, self.sets.judged_on
        failures = judging.summary
        if rest is None or not len(rest) or not failures["n"]:
            return ""
        now, error = failures["after"], Objective(1.0).error((failures["after"], judging.alone), (None, 0))
        before, works = rest.summary["before"], rest.summary["after"]
        keeping = Rule(self.objective, replace(self.limits, guard=None))  # a floor can be given up
        sizes = [p for p in self.points if p.by == CAUSES and keeping.safe(p)]
        tried = [(getattr(p, on) or 0.0, p.remaining or 0.0, p) for p in sizes]
        more = [one for one in tried if one[0] > now + JUDGING.clearly * error and one[1] < works]
        if not more:
            return ""
        fixed, left, size = max(more, key=lambda one: one[:2])
        share = self.objective.failures
        cost = share * (fixed - now) / ((1 - share) * (works - left))  # at which both are worth the same
        every = [fit.remaining for fit in size.fits if fit.remaining is not None]
        least = min(every, default=left)  # any of its fits may judge
        needed = [f"floor={ceil(100 * (before - least - ROUNDING)) / 100:g}"] if self._below_floor(least) else []
        needed += [f"broken_costs={floor_to_two(cost):g}"] if cost < self.objective.broken_costs else []
        allowed = replace(self.objective, broken_costs=min(floor_to_two(cost), self.objective.broken_costs))
        if not needed or not self._beats_controls(size, allowed):  # what is offered must pass the test of the verdict
            return ""
        return f"removing {size.removed} would take {self._words(fixed, left)}; set {' and '.join(needed)} to allow it"

    def _beats_controls(self, size: CurvePoint, objective: Objective) -> bool:
        """Whether it gains more than each control beyond chance, where controls were judged."""
        controls = [p for p in self.points if p.by in (NOTHING, RANDOM) and p.fits[0].outcome is not None]
        return all(Against(size, control, objective).better for control in controls)

    def _below_floor(self, left: float) -> bool:
        return self.limits.judge is not None and left < self.limits.judge - ROUNDING

    def _words(self, fixed: float, left: float) -> str:
        return f"accuracy on the {self.sets.judged_on} failures to {fixed:.3f} and on what worked to {left:.3f}"


def floor_to_two(cost: float) -> float:
    """Two digits, rounded down, so that the cost stays below the one at which both are worth the same."""
    digits = 10.0 ** (1 - floor(log10(cost)))
    return floor(cost * digits) / digits
