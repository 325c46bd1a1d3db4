"""A repair as it was asked for: evidence, how it is split, and how its rounds are done; checked as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from amends.algorithm.ahead import announce
from amends.algorithm.budget import Size, within
from amends.algorithm.decisions import corrected, new_labels
from amends.algorithm.identify import Identified
from amends.algorithm.options import Options, alternatives, removal, treatment
from amends.algorithm.rounds import Plan, Round, Search
from amends.algorithm.setup import Setup, setup_of
from amends.algorithm.split import Groups, Split, split_of
from amends.algorithm.treat import Fitted, at_once
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.params import Params, large
from amends.evidence.prepare import whole
from amends.evidence.targets import alike, together
from amends.methods import Default
from amends.progress import Progress


@dataclass(frozen=True, eq=False)
class Problem:
    """`parts` of the split are repaired one after the other, each from where the one before it ended."""

    given: dict[str, Factor]
    split: Split
    parts: tuple[Split, ...]
    plan: Plan
    setup: Setup
    allowed: tuple[str, ...] = ()  # by the user, what is refused otherwise

    @classmethod
    def of(cls, given: dict[str, Factor], asked: Options) -> Problem:
        train, seed = given["train"], whole(asked.seed)
        groups = asked.group_by if isinstance(asked.group_by, Groups) else Groups(asked.group_by)
        split, parts = split_of(given, groups, asked.holdout, seed)
        remove = removal(asked.remove, len(train), train.examples.names())
        if len(parts) > 1 and isinstance(remove, np.ndarray):
            raise BadInput(
                "remove holds positions; several groups are repaired in turn; repair one group, or pass a count"
            )
        budget = within(asked.budget, given)
        ours = Default(budget)
        identify_with, treat_with = (ours if w is None else w for w in (asked.identify_with, asked.treat_with))
        method, learning = treatment(treat_with, asked.learn, seed, train)
        if learning and not alike(train, given["failures"]):
            raise BadInput(
                "train and failures have labels of different kinds; learn is True; pass one kind, or learn=False"
            )
        if learning is not False or isinstance(identify_with, Default):
            for name in ("failures", "remaining"):
                together(train, given.get(name))
        by = treat_with if isinstance(treat_with, Default) else ours
        settings = by.settings_for(large(train.network.params))
        labels = new_labels(asked.remove, train)
        method, *others = (corrected(m, labels, train) for m in (method, *alternatives(treat_with, seed, train)))
        plan = Plan(
            identify_with=identify_with, method=method, learning=learning, remove=remove, floor=asked.floor,
            broken_costs=float(asked.broken_costs), seed=seed, alternatives=tuple(others), kept=asked.least,
            settings=settings, budget=budget, ours=isinstance(treat_with, Default),
        )  # fmt: skip
        outweighs = settings.learning.outweighs(len(split.query), len(train), len(split.guard))
        outweighed = learning is None and outweighs
        setup = setup_of(given, split, learning, outweighed, asked.whole).check(asked.anyway)
        if outweighed:
            plan = replace(plan, learning=False)
        return cls(given, split, tuple(parts), plan, setup, asked.allowed)

    @property
    def start(self) -> Params:
        """The weights of the model handed in."""
        return self.given["train"].network.params

    def _from(self, before: Sequence[Round]) -> dict[str, Factor]:
        """The evidence under the weights that the rounds before ended with."""
        theta = before[-1].after if before else self.start
        return {name: replace(f, network=replace(f.network, params=theta)) for name, f in self.given.items()}

    def without(self, failures: Sequence[int], known: Identified) -> tuple[Problem, Identified]:
        """The problem with some failures left out of the query, and the search that used them, without them: its scores
        stay as they are."""
        part, *others = self.parts
        if others:
            raise BadInput("failures can be left out of one search only; leave out; treat one group at a time")
        fewer = part.without(failures)
        unseen = None if known.unseen is None else known.unseen[np.isin(part.query, fewer.query)]
        return replace(self, parts=(fewer,)), replace(known, unseen=unseen)

    def search(self, before: Sequence[Round], shown: Progress, known: Identified | None = None) -> Search:
        """The first half of the next round; where its scores are `known`, nothing is computed."""
        return self.plan.search(self._from(before), self.parts[len(before)], shown, known)

    def treat(self, search: Search, before: Sequence[Round], shown: Progress, fitted: Fitted = at_once) -> Round:
        """Its second half; each fit goes through `fitted`, which may know it."""
        made = self.plan.treat(self._from(before), search, before, shown, fitted)
        return made.since(before, search.part.sets(self.given)) if before else made

    def announce(self, before: Sequence[Round], searched: bool, shown: Progress) -> None:
        """What is left to be done after these rounds; the next one may be `searched` already."""
        train = len(self.given["train"])
        sizes = [Size(train, 2 * len(part.query), 2 * len(part.guard)) for part in self.parts[len(before) :]]
        announce(self.plan, self.given, sizes, searched, shown)

    def repaired(self) -> Split:
        """The split with the failures of all groups that were asked for."""
        if len(self.parts) == 1:
            return self.parts[0]
        return self.split.only({name for part in self.parts for name in part.names})
