"""How to forget, how many to remove, and whether to learn from the failures as well: chosen without
what judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import cast

import numpy as np
import torch

from amends.algorithm.curve import (
    CAUSES,
    LEARNED,
    NOTHING,
    RANDOM,
    Curve,
    CurvePoint,
    Fit,
    Limits,
    Rule,
    filled,
    share,
    sizes,
)
from amends.algorithm.identify import Influence
from amends.algorithm.objective import Objective
from amends.algorithm.treat import Fitted, again, at_once, going_on, shortened, treated
from amends.data.splits import some
from amends.errors import AmendsError, BadInput
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.evidence.targets import alike
from amends.methods import Method
from amends.posteriors import Anchored, Ensemble, Posterior
from amends.progress import Progress
from amends.settings import DEFAULT, JUDGING, Settings


@dataclass(frozen=True)
class Choice:
    """What was chosen: the points of the curve, which of them is the repair, and which pairs of (with the
    causes gone, a control) must differ for it to be one. Where the failures were learned from and nobody
    said so, `forgetting` is the same without that, should what judges say that it was in vain. `again` makes the same
    choice with more fits of what is compared, given its points as judged; None where there are none to be made."""

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
        """Numbers removed in the controls that are told: those of what is compared."""
        return (
            {0}
            if self.final is None
            else {self.points[at].removed for pair in (*self.against, (self.final, 0)) for at in pair}
        )


@dataclass(frozen=True, eq=False)
class Chooser:
    """How to forget, how many to remove, and whether to learn from the query as well. Never sees what
    judges. `alternatives` are treatments to choose from beside `method`."""

    influence: Influence
    guard: Factor | None
    keep: tuple[Factor, ...]
    kept: Mapping[str, float | None]  # their names, and the least of each that must be right, where the user says
    method: Method
    learning: bool | None
    objective: Objective
    floor: float | None
    seed: int
    progress: Progress
    gone: np.ndarray  # what an earlier repair of another group removed, and stays removed
    chosen: np.ndarray | None = None  # positions the user picked, to be removed whatever their score
    alternatives: tuple[Method, ...] = ()
    laid: Limits | None = None  # what an earlier repair of another group was held to, and holds on
    ours: bool = False  # whether the method is the default's, fitted in two parts; one by name is fitted as it is
    known: Mapping[int, Fit] = field(default_factory=dict)  # short fits of `method` made while choosing it, by size
    settings: Settings = DEFAULT
    fitted: Fitted = at_once

    @cached_property
    def order(self) -> np.ndarray:
        """What may be removed: what the user picked, then the others, each most harmful first."""
        order = np.argsort(-self.influence.scores, kind="stable")
        order = order[~np.isin(order, self.gone)]
        if self.chosen is None:
            return order
        picked = np.isin(order, self.chosen)
        return np.concatenate([order[picked], order[~picked]])

    def __call__(self, asked: int | None) -> Choice:
        if self.alternatives:
            plain, (best, known) = replace(self, alternatives=()), self._best(asked)
            made = replace(plain, method=best, known=known)(asked)
            return made if best is self.method or made.final is not None else plain(asked)
        made = self._chosen(asked)
        more = made.final is not None and self._fits > len(made.points[made.final].fits)
        return replace(made, again=partial(self._again, made)) if more else made

    def _chosen(self, asked: int | None) -> Choice:
        points, chosen, rule = self._sizes(asked)
        tried = any(p.by == CAUSES for p in points)
        if chosen is None:
            return Choice(points, rule.limits, tried, any(rule.safe(p) for p in points if p.by == CAUSES))
        at = points.index(chosen)
        by_chance = next(i for i, p in enumerate(points) if p.by == RANDOM and p.removed == chosen.removed)
        made = Choice(points, rule.limits, True, True, at, ((at, 0), (at, by_chance)))
        if self.learning is False or not alike(self.influence.train, self.influence.failures):
            return made
        self.progress.say("learning from the failures as well")
        learned = self._learner(chosen).at(LEARNED, chosen.removed)
        if not self.learning and not rule.safe(learned):
            return made
        points.append(learned)
        final = len(points) - 1
        if self.learning:
            return replace(made, final=final)
        return replace(made, final=final, against=(*made.against, (final, at)), forgetting=made)

    def _again(self, choice: Choice, points: list[CurvePoint]) -> Choice:
        """The same choice, with as many fits of what is compared as the settings have."""
        self.progress.say("fitting what judges once more")
        compared = sorted({at for pair in choice.against for at in pair})
        learned = [at for at in compared if points[at].by == LEARNED]
        forgotten = [at for at in compared if at not in learned]
        points = self._refitted(points, forgotten, self._curve(self.whole))
        points = self._refitted(points, learned, self._learner(points[choice.against[0][0]]))
        forgetting = choice.forgetting and replace(choice.forgetting, points=points)
        return replace(choice, points=points, forgetting=forgetting, again=None)

    def _refitted(self, points: list[CurvePoint], which: list[int], curve: Curve) -> list[CurvePoint]:
        """Those of the points with all the fits they may have."""
        curve = replace(curve, refits=self._fits)
        more = dict(zip(which, filled([(curve, points[at]) for at in which]), strict=True))
        return [more.get(at, point) for at, point in enumerate(points)]

    @cached_property
    def _fits(self) -> int:
        """Of what is compared, at most: one where a treatment has no random numbers."""
        return self.settings.curve.refits if again(self.method, 1) is not self.method else 1

    def _learner(self, forgotten: CurvePoint) -> Curve:
        """Goes on from where the causes were forgotten; a method by name forgets and learns at once."""
        taught = self._taught(self.influence.failures)
        if not self.ours:
            return self._curve((self.method._replace(learn=True),), taught)
        learning = going_on(self.method._replace(learn=True), self.settings.learning.passes)
        return replace(self._curve((*self.whole, learning), taught), begun={forgotten.removed: forgotten})

    def _sizes(self, asked: int | None) -> tuple[list[CurvePoint], CurvePoint | None, Rule]:
        """Points of the curve: nothing removed, sizes tried with the first part of a fit, and whole fits of what
        judges: the size that was chosen, the same number at random, and nothing."""
        settings, say, shown = self.settings.curve, self.progress.say, self.influence.wrong
        short, rule = replace(self._curve((self.short,)), known=self.known), self._rule
        if asked is not None:
            points = [short.empty(NOTHING, 0), short.empty(CAUSES, asked)]
            chosen = points[1]
        else:
            say("trying how many to remove")
            points = [short.empty(NOTHING, 0) if shown else short.nothing()]
            points += short.causes(self._counts(asked), rule.good, settings.patience)
            chosen = rule.best(points, shown, self._error)
        one = chosen or points[-1]
        whole, as_long = self._curve(self.whole), self.short is self.method
        whole = replace(whole, begun={p.removed: p for p in points} if self.ours else {})
        by_chance = [whole.empty(RANDOM, p.removed) for p in points[1:] if p is one or settings.refits_of_all]
        say("fitting what was chosen, and its controls")
        judged = [p for p in points if p is points[0] or p is one]
        fitted = [*(p if as_long else whole.empty(p.by, p.removed) for p in judged), *by_chance]
        made = filled([(whole, p) for p in fitted])
        longer = dict(zip(map(id, judged), made, strict=False))
        points = [longer.get(id(p), p) for p in points] + made[len(judged) :]
        return points, None if chosen is None else longer[id(chosen)], rule

    @cached_property
    def short(self) -> Method:
        """The method as it is where a fit only chooses."""
        return shortened(self.method, self.settings.curve.short)

    @cached_property
    def whole(self) -> tuple[Method, ...]:
        """Its parts where a fit is to judge; the first has chosen already."""
        rest = going_on(self.method, 1 - self.settings.curve.short)
        return (self.short, rest) if self.ours and self.short is not self.method else (self.method,)

    def _taught(self, failures: Factor) -> Factor:
        """What is learned, as heavy as it should be."""
        learning, right_ones = self.settings.learning, self.right_ones
        heavy = learning.failure * failures
        return heavy if right_ones is None else heavy + learning.right * right_ones

    @cached_property
    def right_ones(self) -> Factor | None:
        """Of those that guard, what is learned with the failures, which alone would pull towards their own
        classes; not so many that learning would take many times as long as forgetting."""
        train, guard = self.influence.train, self.guard
        if guard is None or not alike(train, guard):
            return None
        return guard[some(np.arange(len(guard)), round(self.settings.learning.most * len(train)), self.seed)]

    def _counts(self, asked: int | None) -> list[int]:
        """The sizes of C to try: around the number that must be wrong; shares of D where that is not known."""
        if asked is not None:
            return [asked]
        curve, wrong = self.settings.curve, self.influence.wrong
        most = min(int((self.influence.scores[self.order] > 0).sum()), len(self.order) - 1)
        return sizes(curve.around, wrong, most) if wrong else sizes(curve.shares, len(self.influence.train), most)

    def _best(self, asked: int | None) -> tuple[Method, dict[int, Fit]]:
        """The usual treatment, and its fits, if the model is clearly worth more with it than as it was: by a standard
        error, with as many gone as must be wrong, or a middle size where that is not known. If not, its steps may be
        too long or too short, and the others are tried: one has to be worth more by as much, or to be within the limits
        where the usual one is not. One that refuses is passed over."""
        counts = self._counts(asked)
        if not counts:
            return self.method, {}
        self.progress.say("trying how to forget")
        wrong, rule = self.influence.wrong, self._rule
        size = min(counts, key=lambda n: abs(n - wrong)) if wrong else counts[len(counts) // 2]
        usual = self._once(self.method, size)
        best, most = (self.method, {size: usual.fits[0]}), (rule.safe(usual), rule.worth(usual) + self._error(usual))
        as_it_was = self._curve(self.whole).seen(self.influence.train.network.params)
        if rule.safe(usual) and rule.worth(usual) > rule.worth(as_it_was) + self._error(usual):
            return best
        for method in self.alternatives:
            try:
                point = self._once(method, size)
            except (AmendsError, torch.OutOfMemoryError):
                continue
            here = (rule.safe(point), rule.worth(point))
            if here > most:
                best, most = (method, {size: point.fits[0]}), here
        return best

    def _once(self, method: Method, size: int) -> CurvePoint:
        trying = replace(self, method=method, alternatives=())
        return CurvePoint(CAUSES, size, (trying._curve((trying.short,)).fit(self.order[:size], 0),))

    def _error(self, point: CurvePoint) -> float:
        """The standard error of what a point is worth."""
        guards = 0 if self.guard is None else len(self.guard)
        return self.objective.error((point.query, len(self.influence.failures)), (point.guard, guards))

    @cached_property
    def _rule(self) -> Rule:
        return Rule(self.objective, self._limits() if self.laid is None else self.laid)

    def _limits(self) -> Limits:
        """From where the model was: what the user allows remaining and the sets to keep to lose."""
        start = self.influence.train.network.params
        allowed = JUDGING.kept if self.floor is None else float(self.floor)
        keep = tuple(
            (share(data, start) or 0.0) - allowed if least is None else float(least)
            for data, least in zip(self.keep, self.kept.values(), strict=True)
        )
        guard = None if self.floor is None else share(self.guard, start)
        least = None if self.floor is None or guard is None else guard - float(self.floor)
        return Limits(least, None, keep, tuple(self.kept))

    def _curve(self, parts: tuple[Method, ...], taught: Factor | None = None) -> Curve:
        """Treats in these parts, one after the other; from what was begun the last of them alone."""
        query = self.influence.failures
        refits = self._fits if self.settings.curve.refits_of_all else 1

        def treat(causes: np.ndarray, number: int, begun: Params | None) -> Params:
            theta = begun
            for part in parts if begun is None else parts[-1:]:
                theta = self._treated(causes, again(part, number), query if taught is None else taught, theta)
            return cast("Params", theta)

        return Curve(treat, refits, self.order, query, self.guard, self.keep, self.seed)

    def _treated(self, causes: np.ndarray, method: Method, query: Factor, start: Params | None) -> Params:
        gone = np.sort(np.concatenate([causes, self.gone]).astype(np.int64))
        train, remembered = self.influence.train, self.remembered
        if start is not None:
            here = {k: v.to(train.network.device) for k, v in start.items()}
            remembered = cast("Anchored", remembered).begun(here)
        method = method._replace(remember=lambda *_: remembered)  # once for all sizes

        def fit() -> Params:
            after = treated(train, gone, query, self.guard, method, self.progress, self.keep)
            if isinstance(after, Ensemble) and after.centre is None:
                raise BadInput(
                    "an ensemble of models repairs to several models; repair, treat_with; use amends.treat for it"
                )
            return after.mean

        of = gone.tobytes() + query.examples.ids.tobytes() + bytes([method.learn, start is not None])
        return self.fitted(of, fit)

    @cached_property
    def remembered(self) -> Posterior:
        return self.method.remember(self.influence.train, self.guard)
