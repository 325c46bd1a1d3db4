"""Which failures are searched with and which judge, which right examples guard and which judge, group by group."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from amends.algorithm.verdict import Judging
from amends.data.splits import split
from amends.errors import BadInput
from amends.evaluation.predictions import groups, right
from amends.evaluation.statistics import by_label
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.nearness.neighbours import clusters


@dataclass(frozen=True, eq=False)
class Groups:
    """For `group_by`: how failures are grouped (None, "clusters", or a name for each), and which of the
    groups to repair: `only` one, or several one after the other; all of them at once where it is None."""

    by: Any = None
    only: Any = None


def cuts(given: dict[str, Factor], wanted: Groups, holdout: float, seed: int) -> tuple[Cut, list[Cut]]:
    """Where failures and remaining are cut, and the part of the failures each round is about."""
    failed = given["failures"]
    named = _groups(failed, failed.network.params, wanted.by, seed)
    cut = Cut.of(failed, named, holdout, given.get("remaining"), seed)
    asked = [cut.only(names) for names in _asked(wanted.only, named)]
    _check(asked, holdout)
    return cut, asked


@dataclass(frozen=True, eq=False)
class Cut:
    """Positions: of the failures searched with and judged with, of others that are only shown; of the
    right examples that guard and that judge; and the group of every failure."""

    query: np.ndarray
    holdout: np.ndarray
    others: np.ndarray
    guard: np.ndarray
    judge: np.ndarray
    named: np.ndarray

    @classmethod
    def of(cls, failed: Factor, named: np.ndarray, holdout: float, rest: Factor | None, seed: int) -> Cut:
        query, judged_with = _split_failures(named, holdout, seed)
        return cls(query, judged_with, judged_with[:0], *_split_remaining(rest, seed), named)

    def only(self, names: set[str] | None) -> Cut:
        """With the failures of some groups alone; the others' holdout is still shown."""
        if names is None:
            return self
        query, holdout = (at[np.isin(self.named[at].astype(str), list(names))] for at in (self.query, self.holdout))
        return replace(self, query=query, holdout=holdout, others=np.setdiff1d(self.holdout, holdout))

    def sets(self, given: dict[str, Factor]) -> Judging:
        failed, rest = given["failures"], given.get("remaining")
        return Judging(
            failed[self.query], failed[self.holdout], failed[self.others], None if rest is None else rest[self.judge],
            failures=len(failed), right_ones=0 if rest is None else len(rest),
        )  # fmt: skip

    def by_group(self, given: dict[str, Factor], start: Params, after: Params) -> dict[str, Any]:
        """Every group of the holdout, also those that were not repaired."""
        at = np.concatenate([self.holdout, self.others])
        return by_label(self.named[at], *(right(given["failures"][at], theta) for theta in (start, after)))


def _asked(only: Any, named: np.ndarray) -> list[set[str] | None]:
    """The groups of each round, in the order given."""
    if only is None:
        return [None]
    known = sorted(set(named.astype(str)))
    several = isinstance(only, Iterable) and not isinstance(only, str | bytes)
    names = [str(name) for name in (only if several else [only])]
    for name in names:
        if name not in known:
            raise BadInput(f"no failure is in the group {name!r}; group_by; there are {', '.join(known)}")
    if not names or len(set(names)) < len(names):
        raise BadInput(f"only is {names}; group_by; name one or more, each once")
    return [{name} for name in names]


def _check(asked: list[Cut], holdout: float) -> None:
    """A group is searched with and judged with, so it takes two."""
    for cut in asked:
        if not len(cut.query) or (holdout and not len(cut.holdout)):
            at = np.concatenate([cut.query, cut.holdout])
            raise BadInput(
                f"{len(at)} failure(s) of {cut.named[at[0]]} cannot be split into query and holdout; group_by; "
                "name another group, or put it together with others"
            )


def _groups(failed: Factor, start: Params, group_by: Any, seed: int) -> np.ndarray:
    """By (true, predicted), by clusters in the model's own features, or as the user says."""
    if group_by is None:
        return groups(failed)
    if isinstance(group_by, str):
        if group_by != "clusters":
            raise BadInput(f"group_by is {group_by!r}; group_by; give 'clusters', a name for each failure, or None")
        return clusters(failed, start, seed=seed)
    named = np.asarray(group_by, dtype=object).astype(str)
    if named.shape != (len(failed),):
        raise BadInput(f"group_by has shape {list(named.shape)}, there are {len(failed)} failures; group_by; one each")
    return named


def _split_failures(named: np.ndarray, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(holdout, numbers.Real) or not 0 <= float(holdout) < 1:
        raise BadInput(f"holdout is {holdout!r}; holdout; give a share of the failures, 0 or more and below 1")
    at_query, at_holdout = split(named, holdout, seed)
    if not len(at_query) or (holdout and not len(at_holdout)):
        raise BadInput(
            f"{len(named)} failure(s) cannot be split into query and holdout; failures; give 2 or more, or holdout=0"
        )
    return at_query, at_holdout


def _split_remaining(rest: Factor | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What guards the choice does not judge it; a single example only judges."""
    if rest is None or len(rest) < 2:
        return np.zeros(0, dtype=int), np.arange(0 if rest is None else len(rest))
    y = rest.examples.y.cpu().numpy()
    return split(y if y.ndim == 1 and y.dtype.kind in "iu" else np.zeros(len(rest)), 0.5, seed)
