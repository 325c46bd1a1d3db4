"""How to forget, how many to remove, and whether to learn from the failures too: chosen without the examples that
judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch

from amends.algorithm.budget import ONCE_MORE
from amends.algorithm.curve import (
    CAUSES,
    LEARNED,
    NOTHING,
    RANDOM,
    CurvePoint,
    Fit,
    Limits,
    Rule,
    filled,
    share,
    sizes,
)
from amends.algorithm.fitting import Fitting
from amends.algorithm.identify import Influence
from amends.algorithm.objective import Objective
from amends.errors import AmendsError
from amends.evidence.targets import alike
from amends.methods import Method
from amends.settings import JUDGING


@dataclass(frozen=True)
class Choice:
    """What was chosen. `points`: those of the curve. `final`: which of them is the repair. `against`: the pairs of
    points that the test compares, causes removed and a control. `forgetting`: the same choice without learning from the
    failures, in case the examples that judge show no gain from it; None where the user decided. `again`: makes the same
    choice, from its judged points, with more fits of what is compared; None where there are no more to make."""

    points: list[CurvePoint]
    limits: Limits
    tried: bool
    safe: bool = True  # whether any of the sizes is within the limits
    final: int | None = None
    against: tuple[tuple[int, int], ...] = ()
    forgetting: Choice | None = None
    again: Callable[[list[CurvePoint]], Choice] | None = None

    @property
    def controls(self) -> set[int]:
        """How many were removed in the controls that are reported: those of the points that are compared."""
        return (
            {0}
            if self.final is None
            else {self.points[at].removed for pair in (*self.against, (self.final, 0)) for at in pair}
        )


@dataclass(frozen=True, eq=False)
class Chooser:
    """Chooses how to forget, how many to remove, and whether to learn from the query too. It never sees the examples
    that judge. `alternatives` are treatments to choose from besides that of `fitting`."""

    fitting: Fitting
    kept: Mapping[str, float | None]  # sets to keep by name, with the least accuracy the user gave, if any
    learning: bool | None
    objective: Objective
    floor: float | None
    alternatives: tuple[Method, ...] = ()
    laid: Limits | None = None  # limits of an earlier repair of another group, which still hold
    known: Mapping[int, Fit] = field(default_factory=dict)  # short fits made while choosing how to forget, by size

    def __call__(self, asked: int | None) -> Choice:
        if self.alternatives:
            plain, (best, known) = replace(self, alternatives=()), self._best(asked)
            made = replace(plain, fitting=best, known=known)(asked)
            return made if best is self.fitting or made.final is not None else plain(asked)
        made = self._chosen(asked)
        more = made.final is not None and self.fitting.fits > len(made.points[made.final].fits)
        return replace(made, again=partial(self._again, made)) if more else made

    def _chosen(self, asked: int | None) -> Choice:
        points, chosen, rule = self._sizes(asked)
        tried = any(p.by == CAUSES for p in points)
        if chosen is None:
            return Choice(points, rule.limits, tried, any(rule.safe(p) for p in points if p.by == CAUSES))
        at = points.index(chosen)
        by_chance = next(i for i, p in enumerate(points) if p.by == RANDOM and p.removed == chosen.removed)
        made = Choice(points, rule.limits, True, True, at, ((at, 0), (at, by_chance)))
        if self.learning is False or not alike(self._influence.train, self._influence.failures):
            return made
        self.fitting.progress.say("learning from the failures as well")
        learned = self.fitting.learner(chosen).at(LEARNED, chosen.removed)
        if not self.learning and not rule.safe(learned):
            return made
        points.append(learned)
        final = len(points) - 1
        if self.learning:
            return replace(made, final=final)
        return replace(made, final=final, against=(*made.against, (final, at)), forgetting=made)

    def _again(self, choice: Choice, points: list[CurvePoint]) -> Choice:
        """The same choice, with all fits of the compared points that the settings ask for."""
        fitting = self.fitting
        fitting.progress.say(ONCE_MORE)
        compared = sorted({at for pair in choice.against for at in pair})
        learned = [at for at in compared if points[at].by == LEARNED]
        forgotten = [at for at in compared if at not in learned]
        points = fitting.refitted(points, forgotten, fitting.curve(*fitting.whole))
        points = fitting.refitted(points, learned, fitting.learner(points[choice.against[0][0]]))
        forgetting = choice.forgetting and replace(choice.forgetting, points=points)
        return replace(choice, points=points, forgetting=forgetting, again=None)

    def _sizes(self, asked: int | None) -> tuple[list[CurvePoint], CurvePoint | None, Rule]:
        """Points of the curve: nothing removed, sizes tried with the first part of a fit, and whole fits of what
        judges: the size that was chosen, the same number at random, and nothing."""
        fitting, shown, rule = self.fitting, self._influence.wrong, self._rule
        settings, say = fitting.settings.curve, fitting.progress.say
        short = replace(fitting.curve(fitting.short), known=self.known)
        if asked is not None:
            points = [short.empty(NOTHING, 0), short.empty(CAUSES, asked)]
            chosen = points[1]
        else:
            say("trying how many to remove")
            points = [short.empty(NOTHING, 0) if shown else short.nothing()]
            points += short.causes(self._counts(asked), rule.good, settings.patience)
            chosen = rule.best(points, shown, self._error)
        one = chosen or points[-1]
        whole, as_long = fitting.curve(*fitting.whole), fitting.short is fitting.method
        whole = replace(whole, begun={p.removed: p for p in points} if fitting.ours else {})
        by_chance = [whole.empty(RANDOM, p.removed) for p in points[1:] if p is one or settings.refits_of_all]
        say("fitting what was chosen, and its controls")
        judged = [p for p in points if p is points[0] or p is one]
        fitted = [*(p if as_long else whole.empty(p.by, p.removed) for p in judged), *by_chance]
        made = filled([(whole, p) for p in fitted])
        longer = dict(zip(map(id, judged), made, strict=False))
        points = [longer.get(id(p), p) for p in points] + made[len(judged) :]
        return points, None if chosen is None else longer[id(chosen)], rule

    def _counts(self, asked: int | None) -> list[int]:
        """The sizes of C to try: around the number that must be wrong; shares of D where that is not known."""
        if asked is not None:
            return [asked]
        curve, influence, order = self.fitting.settings.curve, self._influence, self.fitting.order
        most = min(int((influence.scores[order] > 0).sum()), len(order) - 1)
        wrong = influence.wrong
        return sizes(curve.around, wrong, most) if wrong else sizes(curve.shares, len(influence.train), most)

    def _best(self, asked: int | None) -> tuple[Fitting, dict[int, Fit]]:
        """The usual treatment and its fit, if it makes the model worth more by a standard error, with as many removed
        as must be wrong (or a middle size where that is not known). If not, its rate may be too high or too low, and
        the others are tried. Another one is taken if it is worth more by a standard error, or if it is within the
        limits and the usual one is not. One that raises an error is left out."""
        counts = self._counts(asked)
        if not counts:
            return self.fitting, {}
        self.fitting.progress.say("trying how to forget")
        wrong, rule = self._influence.wrong, self._rule
        size = min(counts, key=lambda n: abs(n - wrong)) if wrong else counts[len(counts) // 2]
        usual = self._once(self.fitting, size)
        best = self.fitting, {size: usual.fits[0]}
        most = rule.safe(usual), rule.worth(usual) + self._error(usual)
        as_it_was = self.fitting.curve(*self.fitting.whole).seen(self._influence.train.network.params)
        if rule.safe(usual) and rule.worth(usual) > rule.worth(as_it_was) + self._error(usual):
            return best
        for method in self.alternatives:
            fitting = replace(self.fitting, method=method)
            try:
                point = self._once(fitting, size)
            except (AmendsError, torch.OutOfMemoryError):
                continue
            here = rule.safe(point), rule.worth(point)
            if here > most:
                best, most = (fitting, {size: point.fits[0]}), here
        return best

    def _once(self, fitting: Fitting, size: int) -> CurvePoint:
        return CurvePoint(CAUSES, size, (fitting.curve(fitting.short).fit(fitting.order[:size], 0),))

    def _error(self, point: CurvePoint) -> float:
        """The standard error of what a point is worth."""
        guard = self.fitting.guard
        guards = 0 if guard is None else len(guard)
        return self.objective.error((point.query, len(self._influence.failures)), (point.guard, guards))

    @cached_property
    def _rule(self) -> Rule:
        return Rule(self.objective, self._limits() if self.laid is None else self.laid)

    def _limits(self) -> Limits:
        """The accuracies of the model as it was, less what the user lets remaining and the sets to keep lose."""
        start = self._influence.train.network.params
        allowed = JUDGING.kept if self.floor is None else float(self.floor)
        keep = tuple(
            (share(data, start) or 0.0) - allowed if least is None else float(least)
            for data, least in zip(self.fitting.keep, self.kept.values(), strict=True)
        )
        guard = None if self.floor is None else share(self.fitting.guard, start)
        least = None if self.floor is None or guard is None else guard - float(self.floor)
        return Limits(least, None, keep, tuple(self.kept))

    @property
    def _influence(self) -> Influence:
        return self.fitting.influence
