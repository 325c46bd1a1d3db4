"""Which failures are searched with and which judge, which right examples guard and which judge; group by group."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from amends.algorithm.sets import Sets
from amends.data.splits import split
from amends.errors import BadInput, first_line, many
from amends.evaluation.predicted import Predicted
from amends.evaluation.predictions import class_targets, groups
from amends.evaluation.statistics import own_first
from amends.evidence.factor import Factor
from amends.nearness.copies import witnesses
from amends.nearness.neighbours import clusters


@dataclass(frozen=True, eq=False)
class Groups:
    """For `group_by`: how failures are grouped (None, "clusters", or a name for each), and which of the
    groups to repair: `only` one, or several one after the other; all of them at once where it is None."""

    by: Any = None
    only: Any = None


@dataclass(frozen=True, eq=False)
class Split:
    """Positions in the given failures: searched with (`query`), judged with (`holdout`), the holdout of
    `other_groups`, which is only shown, and those `already` right, which are no failures. Positions in the given right
    examples: those that guard the choices and those that judge. The group of every failure; and of which failure, and
    of which right example, each is a copy."""

    query: np.ndarray
    holdout: np.ndarray
    other_groups: np.ndarray
    already: np.ndarray
    guard: np.ndarray
    judge: np.ndarray
    group: np.ndarray
    failures_first: np.ndarray
    right_first: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """Of the groups searched with."""
        return tuple(sorted({str(name) for name in self.group[self.query]}))

    @property
    def unasked(self) -> np.ndarray:
        """Failures of other groups that neither searched nor judge."""
        used = np.concatenate([self.query, self.holdout, self.other_groups, self.already])
        rest = np.setdiff1d(np.arange(len(self.group)), used)
        return rest[~np.isin(self.group[rest].astype(str), self.names)]

    def only(self, names: set[str] | None) -> Split:
        """With the failures of some groups alone; the holdout of the others is still shown."""
        if names is None:
            return self
        query, holdout = (at[np.isin(self.group[at].astype(str), list(names))] for at in (self.query, self.holdout))
        return replace(self, query=query, holdout=holdout, other_groups=np.setdiff1d(self.holdout, holdout))

    def without(self, failures: Sequence[int]) -> Split:
        """Some of the failures no longer searched with; they judge nothing either. BadInput where one was not, or where
        none would be left."""
        gone = np.unique(np.asarray(failures, dtype=np.int64))
        strange = np.setdiff1d(gone, self.query)
        if len(strange):
            raise BadInput(f"failure {strange[0]} was not searched with; leave out; name those whose part is query")
        if len(gone) == len(self.query):
            raise BadInput("no failure would be left to search with; leave out; name fewer, or make a new run")
        return replace(self, query=self.query[~np.isin(self.query, gone)])

    def sets(self, given: dict[str, Factor]) -> Sets:
        """What a repair is measured on."""
        failed, rest = given["failures"], given.get("remaining")
        copies = {name: self.failures_first[getattr(self, name)] for name in ("query", "holdout", "other_groups")}
        copies["remaining"] = self.right_first[self.judge]
        return Sets(
            failed[self.query], failed[self.holdout], failed[self.other_groups],
            None if rest is None else rest[self.judge],
            failures=len(failed) - len(self.already), right_ones=0 if rest is None else len(rest),
            others=len(self.other_groups) + len(self.unasked),
            first={name: own_first(f) for name, f in copies.items() if len(np.unique(f)) < len(f)},
        )  # fmt: skip

    def unmeasured(self, given: dict[str, Factor]) -> list[Factor]:
        """What is held out and in none of these sets: right examples that guard, and what was given for nothing."""
        failed, used = given["failures"], np.concatenate([self.query, self.holdout, self.other_groups])
        rest = [failed[np.setdiff1d(np.arange(len(failed)), used)], self.guarding(given), given.get("unnamed")]
        return [data for data in rest if data is not None and len(data)]

    def guarding(self, given: dict[str, Factor]) -> Factor | None:
        """The right examples that guard the choices, if there are any."""
        return given["remaining"][self.guard] if len(self.guard) else None


def split_of(given: dict[str, Factor], wanted: Groups, holdout: float, seed: int) -> tuple[Split, list[Split]]:
    """How failures and remaining are split, and the part of it that each round is about. Copies stay together, so
    that what judges is not a copy of what was searched with."""
    train, failed, rest = given["train"], given["failures"], given.get("remaining")
    predicted = Predicted(failed, failed.network.params)
    already = predicted.right
    if already.all():
        raise BadInput(
            f"the model gets all of the {many(len(failed), 'failure')} right; failures; "
            "pass examples it gets wrong (were failures and remaining swapped?)"
        )
    wrong = np.flatnonzero(~already)
    group = _groups(predicted, wrong, wanted.by, seed)
    first = np.arange(len(failed))
    first[wrong] = wrong[witnesses(failed[wrong], train)]
    right_first = np.zeros(0, dtype=int) if rest is None else witnesses(rest, train)
    query, judges = _split_failures(group, wrong, first, holdout, seed)
    guard = _split_remaining(rest, right_first, seed)
    whole = Split(query, judges, judges[:0], np.flatnonzero(already), *guard, group, first, right_first)
    parts = [whole.only(names) for names in _asked(wanted.only, group[wrong])]
    for part in parts:
        _check(part, holdout)
    return whole, parts


def _asked(only: Any, group: np.ndarray) -> list[set[str] | None]:
    """The groups of each round, in the order given."""
    if only is None:
        return [None]
    known = sorted(set(group.astype(str)))
    several = isinstance(only, Iterable) and not isinstance(only, str | bytes)
    names = [str(name) for name in (only if several else [only])]
    for name in names:
        if name not in known:
            raise BadInput(f"no failure is in the group {name!r}; group_by; choose from {', '.join(known)}")
    if not names or len(set(names)) < len(names):
        raise BadInput(f"the groups to repair are {names}; group_by; name one or more, each once")
    return [{name} for name in names]


def _check(part: Split, holdout: float) -> None:
    """A group needs two failures: one to search with and one to judge with."""
    if not len(part.query) or (holdout and not len(part.holdout)):
        at = np.concatenate([part.query, part.holdout])
        raise BadInput(
            f"the group {part.group[at[0]]} has {many(len(at), 'failure')}, which cannot be split into query and "
            "holdout; group_by; choose a larger group, or join it with others"
        )


def _groups(predicted: Predicted, wrong: np.ndarray, group_by: Any, seed: int) -> np.ndarray:
    """By (true, predicted), by clusters in the model's own features, or as the user says."""
    failed = predicted.data
    if group_by is None:
        return groups(failed, predicted.classes if class_targets(failed) else None)
    if isinstance(group_by, str):
        if group_by != "clusters":
            raise BadInput(
                f"group_by is {group_by!r}; it is no way to group; pass 'clusters', a name for each failure, or None"
            )
        named = np.full(len(failed), "", dtype=object)
        named[wrong] = clusters(failed[wrong], failed.network.params, seed=seed)
        return named
    try:
        named = np.asarray(group_by, dtype=object).astype(str)
    except (TypeError, ValueError) as e:
        raise BadInput(f"group_by cannot be read ({first_line(e)}); pass one name for each failure") from e
    if named.shape != (len(failed),):
        raise BadInput(
            f"group_by has shape {list(named.shape)}; there are {many(len(failed), 'failure')}; pass one name for each"
        )
    return named


def _split_failures(
    group: np.ndarray, wrong: np.ndarray, first: np.ndarray, holdout: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Query and holdout. Copies of a single failure are split all the same, and count as one witness."""
    if not isinstance(holdout, numbers.Real) or not 0 <= float(holdout) < 1:
        raise BadInput(
            f"holdout is {holdout!r}; it must be 0 or more and below 1; pass the share of failures that judges"
        )
    once = len(np.unique(first[wrong])) == 1
    together = np.arange(len(wrong)) if once else first[wrong]
    query, judges = (wrong[at] for at in split(group[wrong], holdout, seed, together))
    if not len(query) or (holdout and not len(judges)):
        right_ones = len(group) - len(wrong)
        others = f" ({many(right_ones, 'other is', 'others are')} right already)" if right_ones else ""
        raise BadInput(
            f"there is only {many(len(wrong), 'failure')}{others}, but one must search and another must judge; "
            "failures; pass 2 or more, or holdout=0"
        )
    return query, judges


def _split_remaining(rest: Factor | None, first: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What guards the choice does not judge it; a single example only judges."""
    if rest is None or len(np.unique(first)) < 2:
        return np.zeros(0, dtype=int), np.arange(0 if rest is None else len(rest))
    y = rest.examples.y.cpu().numpy()
    return split(y if y.ndim == 1 and y.dtype.kind in "iu" else np.zeros(len(rest)), 0.5, seed, first)
