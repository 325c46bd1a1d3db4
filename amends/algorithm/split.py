"""Which failures are searched with and which judge, which right examples guard and which judge; group by group."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from amends.algorithm.sets import Sets
from amends.data.splits import split
from amends.errors import BadInput
from amends.evaluation.predictions import groups
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.nearness.neighbours import clusters


@dataclass(frozen=True, eq=False)
class Groups:
    """For `group_by`: how failures are grouped (None, "clusters", or a name for each), and which of the
    groups to repair: `only` one, or several one after the other; all of them at once where it is None."""

    by: Any = None
    only: Any = None


@dataclass(frozen=True, eq=False)
class Split:
    """Positions in the given failures: searched with (`query`), judged with (`holdout`), and the holdout of
    `other_groups`, which is only shown. Positions in the given right examples: those that guard the choices and those
    that judge. And the group of every failure."""

    query: np.ndarray
    holdout: np.ndarray
    other_groups: np.ndarray
    guard: np.ndarray
    judge: np.ndarray
    group: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """Of the groups searched with."""
        return tuple(sorted({str(name) for name in self.group[self.query]}))

    def only(self, names: set[str] | None) -> Split:
        """With the failures of some groups alone; the holdout of the others is still shown."""
        if names is None:
            return self
        query, holdout = (at[np.isin(self.group[at].astype(str), list(names))] for at in (self.query, self.holdout))
        return replace(self, query=query, holdout=holdout, other_groups=np.setdiff1d(self.holdout, holdout))

    def sets(self, given: dict[str, Factor]) -> Sets:
        """What a repair is measured on."""
        failed, rest = given["failures"], given.get("remaining")
        return Sets(
            failed[self.query], failed[self.holdout], failed[self.other_groups],
            None if rest is None else rest[self.judge],
            failures=len(failed), right_ones=0 if rest is None else len(rest),
        )  # fmt: skip

    def guarding(self, given: dict[str, Factor]) -> Factor | None:
        """The right examples that guard the choices, if there are any."""
        return given["remaining"][self.guard] if len(self.guard) else None


def split_of(given: dict[str, Factor], wanted: Groups, holdout: float, seed: int) -> tuple[Split, list[Split]]:
    """How failures and remaining are split, and the part of it that each round is about."""
    failed = given["failures"]
    group = _groups(failed, failed.network.params, wanted.by, seed)
    whole = Split(*_split_failures(group, holdout, seed), *_split_remaining(given.get("remaining"), seed), group)
    parts = [whole.only(names) for names in _asked(wanted.only, group)]
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
    """A group is searched with and judged with, so it takes two."""
    if not len(part.query) or (holdout and not len(part.holdout)):
        at = np.concatenate([part.query, part.holdout])
        raise BadInput(
            f"the group {part.group[at[0]]} has {_failures(len(at))}, which cannot be split into query and holdout; "
            "group_by; choose a larger group, or join it with others"
        )


def _failures(number: int) -> str:
    return "1 failure" if number == 1 else f"{number} failures"


def _groups(failed: Factor, start: Params, group_by: Any, seed: int) -> np.ndarray:
    """By (true, predicted), by clusters in the model's own features, or as the user says."""
    if group_by is None:
        return groups(failed)
    if isinstance(group_by, str):
        if group_by != "clusters":
            raise BadInput(
                f"group_by is {group_by!r}; it is no way to group; pass 'clusters', a name for each failure, or None"
            )
        return clusters(failed, start, seed=seed)
    named = np.asarray(group_by, dtype=object).astype(str)
    if named.shape != (len(failed),):
        raise BadInput(
            f"group_by has shape {list(named.shape)}; there are {_failures(len(failed))}; pass one name for each"
        )
    return named


def _split_failures(group: np.ndarray, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query, holdout, and nothing yet of other groups."""
    if not isinstance(holdout, numbers.Real) or not 0 <= float(holdout) < 1:
        raise BadInput(
            f"holdout is {holdout!r}; it must be 0 or more and below 1; pass the share of failures that judges"
        )
    query, judges = split(group, holdout, seed)
    if not len(query) or (holdout and not len(judges)):
        raise BadInput(
            f"there is only {_failures(len(group))}; one searches and another judges; pass 2 or more, or holdout=0"
        )
    return query, judges, judges[:0]


def _split_remaining(rest: Factor | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What guards the choice does not judge it; a single example only judges."""
    if rest is None or len(rest) < 2:
        return np.zeros(0, dtype=int), np.arange(0 if rest is None else len(rest))
    y = rest.examples.y.cpu().numpy()
    return split(y if y.ndim == 1 and y.dtype.kind in "iu" else np.zeros(len(rest)), 0.5, seed)
