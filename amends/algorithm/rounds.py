"""How a repair is done: what to remove and how, one round for each group of failures, each with its verdict."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from amends.algorithm.choose import Made, Search
from amends.algorithm.curve import CAUSES, LEARNED, NOTHING_LEARNED, CurvePoint, judged, share
from amends.algorithm.cut import Cut
from amends.algorithm.identify import Influence, identified
from amends.algorithm.selection import fraction, indices, top
from amends.algorithm.verdict import (
    CHANCE,
    ENOUGH,
    NOT,
    OF_FEW,
    PARTLY,
    REPAIRED,
    TELLING,
    Against,
    Floors,
    Judging,
    Keep,
    verdict_of,
)  # fmt: skip
from amends.errors import BadInput
from amends.evaluation.predictions import right
from amends.evaluation.statistics import Judged, mcnemar
from amends.evidence.factor import Factor
from amends.evidence.params import LARGE, Params, count
from amends.methods import Default, Method
from amends.nearness.neighbours import votes
from amends.progress import Progress


@dataclass(frozen=True, eq=False)
class Round:
    """The repair of one group of failures, or of all of them at once."""

    groups: tuple[str, ...]
    query: np.ndarray
    query_groups: np.ndarray
    found: Influence
    points: list[CurvePoint]
    after: Params
    removed: np.ndarray
    verdict: str
    reason: str
    p_value: float
    learned: bool
    controls: dict[str, dict[str, Any]]
    suspects: np.ndarray
    fixed: tuple[int, int]
    floors: Floors

    def since(self, before: Sequence[Round], sets: Judging) -> Round:
        """In terms of the model handed in, whose weights the sets have: what the rounds before this one fixed of
        its failures counts as well, if it is more than training on alone would fix."""
        data, nothing = sets.judging, before[0].points[0].theta  # going on from the model handed in, nothing removed
        was, control, now_right = (
            right(data, {k: v.to(data.network.device) for k, v in theta.items()})
            for theta in (data.network.params, nothing, self.after)
        )
        here, pair = replace(self, fixed=(Judged(was, now_right).fixed, len(data))), Judged(control, now_right)
        helped, p_value = [r for r in before if r.verdict != NOT], mcnemar(pair.fixed, pair.broken)
        chance = p_value > CHANCE if len(data) >= TELLING else p_value / 2 > OF_FEW
        if self.verdict != NOT or not helped or pair.fixed <= pair.broken or chance:
            return here
        names, now = ", ".join(name for r in helped for name in r.groups), float(now_right.mean())
        reason = f"{now:.0%} of the failures are right since {names} was repaired, and no more was forgotten for them"
        verdict = REPAIRED if now >= ENOUGH else PARTLY
        return replace(here, verdict=verdict, reason=reason, p_value=p_value)

    def row(self) -> dict[str, Any]:
        fixed, n = self.fixed
        return {"groups": list(self.groups), "verdict": self.verdict, "reason": self.reason, "fixed": fixed, "n": n,
                "removed": len(self.removed), "learned": self.learned, "p_value": self.p_value}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Plan:
    """How a round is done: with which methods, how much to remove, how far what worked may fall."""

    identify_with: Any
    method: Method
    learning: bool | None
    remove: int | np.ndarray | None
    floor: float | None
    seed: int
    others: tuple[Method, ...] = ()  # treatments to choose from beside `method`

    def __call__(
        self,
        given: dict[str, Factor],
        kept: Mapping[str, float | None],  # sets to keep, and the least of each that must be right
        cut: Cut,
        gone: np.ndarray,
        shown: Progress,
        floors: Floors | None = None,  # those an earlier round was held to, so that losses do not add up
    ) -> Round:
        data, start, sets = given["train"], given["train"].network.params, cut.sets(given)
        guard = given["remaining"][cut.guard] if len(cut.guard) else None
        keeping = tuple(given[name] for name in kept)
        found = identified(data, sets.query, guard, self.identify_with, self.seed, shown)
        suspects = cut.query[suspects_of(found, guard)]
        picked, number = (self.remove, len(self.remove)) if isinstance(self.remove, np.ndarray) else (None, self.remove)
        chooser = Search(
            found, guard, keeping, kept, self.method, self.learning, sets.share, self.floor, self.seed, shown, gone,
            picked, self.others, floors,
        )  # fmt: skip
        made = chooser(number)

        points = judged(made.points, sets.holdout, sets.remaining)  # from here on nothing is fitted
        if floors is None:
            floors = made.floors.judged(points[0].remaining, self.floor, share(sets.remaining, start))
        ended = self._ending(made, points, sets, start, floors)
        if ended.verdict == NOT and made.forgetting is not None:
            forgot = self._ending(made.forgetting, points, sets, start, floors)
            if forgot.verdict != NOT:
                why = f"{forgot.reason}; to learn from the failures too was given up: {ended.reason}"
                made, ended = made.forgetting, replace(forgot, reason=why)
        final = ended.final
        return Round(
            tuple(sorted({str(name) for name in cut.named[cut.query]})),
            cut.query,
            cut.named[cut.query],
            found,
            points,
            ended.after,
            chooser.order[: 0 if final is None else final.removed],
            ended.verdict,
            ended.reason,
            ended.p_value,
            final is not None and (self.method.learn or final.by == LEARNED),
            {p.by: p.row() for p in points if p.by not in (CAUSES, LEARNED) and p.removed in made.controls},
            suspects,
            (ended.fixed, len(sets.judging)),
            floors,
        )

    def _ending(self, made: Made, points: list[CurvePoint], sets: Judging, start: Params, floors: Floors) -> Ending:
        """The verdict on what a search ended with; where it is no repair, the model is as it was."""
        final = None if made.final is None else points[made.final]
        where = sets.judging.network.device
        after = start if final is None else {k: v.to(where) for k, v in final.theta.items()}
        metrics = sets.metrics(start, after, self.seed)
        against = [Against(points[i], points[j], sets.judging, sets.remaining) for i, j in made.against]
        verdict, reason = verdict_of(metrics, floors, final, against, made.tried, made.safe)
        p_value = max((a.p_value for a in against if a.control.by != NOTHING_LEARNED), default=1.0)
        if verdict == NOT:
            return Ending(None, start, verdict, reason, p_value, 0)
        fixed = Judged(*(right(sets.judging, theta) for theta in (start, after))).fixed
        return Ending(final, after, verdict, reason, p_value, fixed)


@dataclass(frozen=True, eq=False)
class Ending:
    """What is handed back, as judged."""

    final: CurvePoint | None
    after: Params
    verdict: str
    reason: str
    p_value: float
    fixed: int


def together(rounds: list[Round], sets: Judging) -> Round:
    """Several rounds in the words of one: repaired if all were, partly if some. Beside all of them stands the control
    that removes nothing from the model handed in, that of the first round, on the failures of them all."""
    verdicts = [r.verdict for r in rounds]
    verdict = verdicts[0] if len(set(verdicts)) == 1 else PARTLY
    reason = "; ".join(f"{', '.join(r.groups)}: {r.verdict}, {r.reason}" for r in rounds)
    p_value = max((r.p_value for r in rounds if r.verdict != NOT), default=1.0)
    controls = {p.by: p.row() for p in judged(rounds[0].points[:1], sets.holdout, sets.remaining, sets.query)}
    return replace(rounds[-1], verdict=verdict, reason=reason, p_value=p_value, controls=controls)


def suspects_of(found: Influence, guard: Factor | None) -> np.ndarray:
    """Failures whose own label looks wrong: every right example near them carries what the model says,
    and no edit that was shown the other failures comes to see them as labelled."""
    if guard is None or found.unseen is None:
        return np.zeros(0, dtype=int)
    given, said = votes(found.failures, guard, found.train.network.params)
    return np.flatnonzero((given == 0) & (said >= 0.9) & (found.unseen < 0.05))


def loss_allowed(floor: float | None) -> None:
    """BadInput unless it is a share."""
    if floor is not None and not (isinstance(floor, numbers.Real) and 0 <= float(floor) <= 1):
        raise BadInput(f"floor is {floor!r}; floor; give the share of remaining that may be lost, 0 to 1")


def check_options(asked: Mapping[str, Any], size: int) -> None:
    """BadInput for what a repair would refuse of its own arguments, before anything is computed."""
    removal(asked["remove"], size)
    loss_allowed(asked["floor"])
    for name, kept in asked["keep"].items():
        least_of(f"keep.{name}", kept)


def least_of(name: str, kept: Any) -> float | None:
    """Of a set to keep, the share that must be right, where the user says; BadInput unless it is one."""
    if not isinstance(kept, Keep):
        return None
    if not isinstance(kept.least, numbers.Real) or not 0 <= float(kept.least) <= 1:
        raise BadInput(f"least is {kept.least!r}; {name}; give the share that must be right, 0 to 1")
    return float(kept.least)


def removal(remove: Any, size: int, names: np.ndarray | None = None) -> int | np.ndarray | None:
    """A count, a share of train, the positions themselves, or None to let the curve decide."""
    if remove is None:
        return None
    if isinstance(remove, numbers.Real) and not isinstance(remove, bool):
        count = isinstance(remove, numbers.Integral)
        gone = len(top(np.zeros(size), int(remove)) if count else fraction(np.zeros(size), float(remove)))
        if gone == size:
            raise BadInput(f"remove is {remove!r}, all of train; remove; leave something to learn from")
        return gone
    if (isinstance(remove, Sequence | np.ndarray) and not isinstance(remove, str)) or hasattr(remove, "__array__"):
        return indices(remove, size, names)
    raise BadInput(f"remove is {remove!r}; remove; give a count, a share of train, positions in it, or None")


def others(given: Method | Default | None, seed: int, train: Factor) -> tuple[Method, ...]:
    """What our own treatment is chosen from."""
    if not (given is None or isinstance(given, Default)):
        return ()
    return (given or Default()).otherwise(seed, len(train), count(train.network.params) >= LARGE)


def treatment_of(
    given: Method | Default | None, learn: bool | None, seed: int, examples: int
) -> tuple[Method, bool | None]:
    """The treatment that only forgets, with which the curve is drawn, and whether to learn from the query
    once that is done: yes, no, or None for only if what worked still works."""
    if learn not in (None, True, False):
        raise BadInput(f"learn is {learn!r}; learn; give True, False, or None to let the evidence decide")
    ours = given is None or isinstance(given, Default)
    method = given
    if given is None or isinstance(given, Default):
        method = (given or Default()).treating(seed, examples)
    if not isinstance(method, Method):
        raise BadInput(f"treat_with is {given!r}; repair; pass one that treats, for example amends.methods.newton()")
    if not method.forget:  # there is nothing but learning in it
        return method if learn is None else method._replace(learn=bool(learn)), False
    wanted = learn if learn is not None or ours else method.learn
    return method._replace(learn=False), None if wanted is None else bool(wanted)
