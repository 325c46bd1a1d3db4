"""One round of a repair, for one group of failures or for all of them: search, treat, judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from amends.algorithm.choose import Chooser
from amends.algorithm.curve import (
    LEARNED,
    NOTHING,
    RANDOM,
    CurvePoint,
    Limits,
    with_outcomes,
)
from amends.algorithm.fitting import Fitting
from amends.algorithm.identify import Identified, Influence, identified
from amends.algorithm.judgement import Judgement
from amends.algorithm.objective import Objective
from amends.algorithm.sets import Outcome, Sets
from amends.algorithm.split import Split
from amends.algorithm.treat import Fitted, at_once
from amends.algorithm.verdict import NOT, PARTLY, REPAIRED
from amends.evaluation.predictions import right
from amends.evaluation.statistics import BeforeAfter
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.methods import Method
from amends.nearness.neighbours import votes
from amends.progress import Progress
from amends.settings import DEFAULT, JUDGING, Settings

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Search:
    """What the first half of a round ends with: the influence of train on the failures searched with."""

    part: Split
    influence: Influence
    suspects: np.ndarray  # positions in the given failures: searched with, and their own label looks wrong

    @classmethod
    def of(cls, part: Split, influence: Influence, guard: Factor | None) -> Search:
        return cls(part, influence, part.query[suspects_of(influence, guard)])

    def frame(self) -> pd.DataFrame:
        """All of train, most harmful first; `conflicts_with` holds positions in the given failures."""
        return self.rows(np.argsort(-self.influence.scores, kind="stable"))

    def rows(self, order: np.ndarray, after: Params | None = None, decision: str = "") -> pd.DataFrame:
        """Some of train, in this order; with the repaired model where there is one."""
        from amends.tables.frames import causes_frame

        query = self.part.query
        return causes_frame(
            self.influence, order, after=after, failure_groups=self.part.group[query], failure_ids=query,
            decision=decision,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Round:
    """What a round ends with: weights, what is gone, and the verdict. `points` are those of the curve, the control that
    removes nothing first; of a round read back from a run folder that control alone."""

    search: Search
    points: list[CurvePoint]
    limits: Limits
    after: Params
    removed: np.ndarray
    verdict: str
    reason: str
    p_value: float
    learned: bool
    controls: dict[str, dict[str, Any]]
    fixed: tuple[int, int]  # how many, and of how many
    offer: str = ""  # what would do more good, and how to get it
    outcome: Outcome | None = None

    def since(self, before: Sequence[Round], sets: Sets) -> Round:
        """The round, measured against the model that was given, whose weights the sets have. What earlier rounds fixed
        of its failures counts too, if that is more than further training alone would fix."""
        data, nothing = sets.judging, before[0].points[0].theta  # going on from the model handed in, nothing removed
        was = sets.before[sets.judged_on]
        control, now_right = (
            right(data, {k: v.to(data.network.device) for k, v in theta.items()}) for theta in (nothing, self.after)
        )
        seen = BeforeAfter(was, now_right, sets.first.get(sets.judged_on))
        here = replace(self, fixed=(seen.fixed, len(data)))
        moves = seen.witnessed(now_right.astype(np.int64) - control)
        helped, p_value = [r for r in before if r.verdict != NOT], Objective(1.0).chance(moves, None)
        if self.verdict != NOT or not helped or p_value > JUDGING.chance:
            return here
        names, now = ", ".join(name for r in helped for name in r.search.part.names), float(now_right.mean())
        reason = f"{now:.0%} of the failures are right since the repair of {names}, so no more was removed for them"
        verdict = REPAIRED if now >= JUDGING.mostly else PARTLY
        return replace(here, verdict=verdict, reason=reason, p_value=p_value)

    def row(self) -> dict[str, Any]:
        fixed, n = self.fixed
        return {"groups": list(self.search.part.names), "verdict": self.verdict, "reason": self.reason, "fixed": fixed,
                "n": n, "removed": len(self.removed), "learned": self.learned, "p_value": self.p_value}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Plan:
    """How every round is done: with which methods, how much to remove, how far what worked may fall."""

    identify_with: Any
    method: Method
    learning: bool | None
    remove: int | np.ndarray | None
    floor: float | None
    broken_costs: float
    seed: int
    alternatives: tuple[Method, ...] = ()  # treatments to choose from beside `method`
    kept: Mapping[str, float | None] = field(default_factory=dict)  # sets to keep, and the accuracy each must end with
    settings: Settings = DEFAULT
    budget: str = "default"
    ours: bool = False  # whether the method is the default's

    def search(self, given: dict[str, Factor], part: Split, shown: Progress, known: Identified | None) -> Search:
        """The first half: scores from the query alone, or those that are `known`. What judges stays unread."""
        guard = part.guarding(given)
        query, method = given["failures"][part.query], self.identify_with if known is None else known
        influence = identified(given["train"], query, guard, method, self.seed, shown)
        return Search.of(part, influence, guard)

    def treat(self, given: dict[str, Factor], search: Search, before: Sequence[Round], shown: Progress,
              fitted: Fitted = at_once) -> Round:  # fmt: skip
        """The second half: chooses what to remove and how, then judges it. Rounds `before` this one have removed some
        examples already. Their limits still hold, so that losses do not add up."""
        part = search.part
        sets, earlier = part.sets(given), before[0].limits if before else None
        objective = Objective(sets.asked, self.broken_costs)
        picked, number = (self.remove, len(self.remove)) if isinstance(self.remove, np.ndarray) else (None, self.remove)
        fitting = self._fitting(given, search, gone_in(before), picked, shown, fitted)
        chooser = Chooser(
            fitting, kept=self.kept, learning=self.learning, objective=objective, floor=self.floor,
            alternatives=self.alternatives, laid=earlier,
        )  # fmt: skip
        choice = chooser(number)

        limits = earlier
        if limits is None:
            was = sets.before.get("remaining")
            judge = None if self.floor is None or was is None or not len(was) else float(was.mean()) - float(self.floor)
            limits = replace(choice.limits, judge=judge)
        judged = Judgement(with_outcomes(choice.points, sets), sets, objective, limits)  # nothing is chosen any more
        if choice.again is not None and judged.in_doubt(choice, self.settings.curve.clear):
            choice = choice.again(judged.points)
            judged = replace(judged, points=with_outcomes(choice.points, sets))
        choice, ended = judged.of_both(choice)
        points = judged.points
        final = ended.final
        learned = final is not None and (self.method.learn or final.by == LEARNED)
        return Round(
            search=search,
            points=points,
            limits=limits,
            after=ended.outcome.here,
            removed=fitting.order[: 0 if final is None else final.removed],
            verdict=ended.verdict,
            reason=ended.reason,
            p_value=ended.p_value,
            learned=learned,
            controls={p.by: _control(p) for p in points if p.by in (NOTHING, RANDOM) and p.removed in choice.controls},
            fixed=(0 if final is None else ended.outcome.judging.fixed, len(sets.judging)),
            offer=judged.offer(ended),
            outcome=ended.outcome,
        )

    def _fitting(self, given: dict[str, Factor], search: Search, gone: np.ndarray, picked: np.ndarray | None,
                 shown: Progress, fitted: Fitted) -> Fitting:  # fmt: skip
        """What makes the fits of a round."""
        return Fitting(
            influence=search.influence,
            guard=search.part.guarding(given),
            keep=tuple(given[name] for name in self.kept),
            method=self.method,
            seed=self.seed,
            progress=shown,
            gone=gone,
            chosen=picked,
            ours=self.ours,
            settings=self.settings,
            fitted=fitted,
        )


def _control(point: CurvePoint) -> dict[str, Any]:
    """Its row, and what another model can be tested against later: of each example that judges, by its position, in how
    many more of the fits it is right than with the model as it was."""
    outcomes = [fit.outcome for fit in point.fits if fit.outcome is not None]
    changes = {}
    for name in ("judging", "remaining"):
        pairs = [pair for o in outcomes if (pair := getattr(o, name)) is not None]
        moves = sum((pair.after.astype(np.int64) - pair.before for pair in pairs), np.zeros(1, dtype=np.int64))
        changes[name] = {str(at): int(moves[at]) for at in np.flatnonzero(moves)}
    return {**point.row(), "changes": changes}


def gone_in(rounds: Sequence[Round]) -> np.ndarray:
    """Positions in train that these rounds removed, in their order."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *(r.removed for r in rounds)])


def together(rounds: Sequence[Round], sets: Sets) -> Round:
    """Several rounds in the words of one: repaired if all were, partly if some. Beside all of them stands the control
    that removes nothing from the model handed in, that of the first round, on the failures of them all."""
    if len(rounds) == 1:
        return rounds[0]
    verdicts = [r.verdict for r in rounds]
    verdict = verdicts[0] if len(set(verdicts)) == 1 else PARTLY
    reason = "; ".join(f"{', '.join(r.search.part.names)}: {r.verdict}, {r.reason}" for r in rounds)
    p_value = max((r.p_value for r in rounds if r.verdict != NOT), default=1.0)
    controls = {p.by: _control(p) for p in with_outcomes(rounds[0].points[:1], sets, query=True)}
    outcome = sets.outcome(rounds[-1].after)
    return replace(
        rounds[-1], verdict=verdict, reason=reason, p_value=p_value, controls=controls, outcome=outcome
    )  # fmt: skip


def suspects_of(influence: Influence, guard: Factor | None) -> np.ndarray:
    """Failures whose own label looks wrong: nine in ten of the right examples near them have the label the model
    predicts, none has theirs, and edits that used only other failures give their label a probability near 0."""
    if guard is None or influence.unseen is None:
        return np.zeros(0, dtype=int)
    doubted = np.flatnonzero(influence.unseen < JUDGING.doubted)
    given, predicted = votes(influence.failures[doubted], guard, influence.train.network.params)
    return doubted[(given == 0) & (predicted >= JUDGING.agreeing)]
