"""How the model is fitted with some of D removed: in which order, in one part or two, and with failures learned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

import numpy as np

from amends.algorithm.curve import Curve, CurvePoint, filled
from amends.algorithm.identify import Influence
from amends.algorithm.treat import Fitted, again, at_once, going_on, shortened, treated
from amends.data.splits import some
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.evidence.targets import alike
from amends.methods import Method
from amends.posteriors import Anchored, Ensemble, Posterior
from amends.progress import Progress
from amends.settings import DEFAULT, Settings


@dataclass(frozen=True, eq=False)
class Fitting:
    """Makes the fits of a round. It never sees the examples that judge."""

    influence: Influence
    guard: Factor | None
    keep: tuple[Factor, ...]
    method: Method
    seed: int
    progress: Progress
    gone: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # what an earlier repair removed
    chosen: np.ndarray | None = None  # positions the user picked, to be removed whatever their score
    ours: bool = False  # whether the method is the default's, fitted in two parts; a method by name is fitted in one
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

    @cached_property
    def fits(self) -> int:
        """The most fits of a point that is compared: one, where a treatment has no random numbers."""
        return self.settings.curve.refits if again(self.method, 1) is not self.method else 1

    @cached_property
    def short(self) -> Method:
        """The method for a fit that only chooses."""
        return shortened(self.method, self.settings.curve.short)

    @cached_property
    def whole(self) -> tuple[Method, ...]:
        """The parts of a fit that is judged; the first part has already been made to choose."""
        rest = going_on(self.method, 1 - self.settings.curve.short)
        return (self.short, rest) if self.ours and self.short is not self.method else (self.method,)

    def curve(self, *parts: Method, taught: Factor | None = None) -> Curve:
        """A curve whose fits have these parts, one after the other; a fit that was begun gets the last part alone."""
        query = self.influence.failures
        refits = self.fits if self.settings.curve.refits_of_all else 1

        def treat(causes: np.ndarray, number: int, begun: Params | None) -> Params:
            theta = begun
            for part in parts if begun is None else parts[-1:]:
                theta = self._treated(causes, again(part, number), query if taught is None else taught, theta)
            return cast("Params", theta)

        return Curve(treat, refits, self.order, query, self.guard, self.keep, self.seed)

    def refitted(self, points: list[CurvePoint], which: list[int], curve: Curve) -> list[CurvePoint]:
        """The points, with all the fits they may have for `which` of them."""
        curve = replace(curve, refits=self.fits)
        more = dict(zip(which, filled([(curve, points[at]) for at in which]), strict=True))
        return [more.get(at, point) for at, point in enumerate(points)]

    def learner(self, forgotten: CurvePoint) -> Curve:
        """A curve that learns too, once the causes are forgotten; a method by name forgets and learns at once."""
        if not self.ours:
            return self.curve(self.method._replace(learn=True), taught=self.taught)
        learning = going_on(self.method._replace(learn=True), self.settings.learning.passes)
        return replace(self.curve(*self.whole, learning, taught=self.taught), begun={forgotten.removed: forgotten})

    @cached_property
    def taught(self) -> Factor:
        """The failures and right examples to learn from, with their weights."""
        learning, right_ones = self.settings.learning, self.right_ones
        heavy = learning.failure * self.influence.failures
        return heavy if right_ones is None else heavy + learning.right * right_ones

    @cached_property
    def right_ones(self) -> Factor | None:
        """The right examples of the guard that are learned with the failures: failures alone would pull the model
        towards their own classes. There are at most `Learning.most` times as many as examples of D, so that learning
        does not take many times as long as forgetting."""
        train, guard = self.influence.train, self.guard
        if guard is None or not alike(train, guard):
            return None
        return guard[some(np.arange(len(guard)), round(self.settings.learning.most * len(train)), self.seed)]

    def _gone(self, causes: np.ndarray) -> np.ndarray:
        return np.sort(np.concatenate([causes, self.gone]).astype(np.int64))

    def _treated(self, causes: np.ndarray, method: Method, query: Factor, start: Params | None) -> Params:
        train, remembered, gone = self.influence.train, self.remembered, self._gone(causes)
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
