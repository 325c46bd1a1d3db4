"""When to stop looking: which examples are worth a look, and what those nobody has looked at would turn out to be.

Every row has a place in a random order that was drawn once, before anybody looked. The first m of those above the cut
are a sample without replacement of all N of them, whatever was looked at besides and for whatever reason. Of the
sample k would be removed; the number K of such rows among all N has the exact interval of every K under which k is not
among the rarest 2.5 % on either side (k is hypergeometric). What is known of the others is then taken away from K.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from amends.config.decisions import GONE
from amends.web.table import Table

FEWEST = 10  # spot checks, before anything is said
LEVEL = 0.95
EVERY = 3  # of the order `worth`, each third is a spot check


def estimate(table: Table) -> dict[str, Any]:
    """The share of what is above the cut and was neither decided nor seen that would be removed or relabelled."""
    cut = table.cut
    rows = table.all("select decision, seen from causes where rank <= ? order by +spot", [cut])
    states = [(row["decision"] in GONE) if row["decision"] else (None if row["seen"] else "unseen") for row in rows]
    unseen = sum(state == "unseen" for state in states)
    sample = next((i for i, state in enumerate(states) if state == "unseen"), len(states))
    told: dict[str, Any] = {"above": len(rows), "unseen": unseen, "sample": sample, "low": None, "share": None,
                            "high": None, "text": ""}  # fmt: skip
    if not cut:
        return told | {"text": "set a cut first, under How many: then what nobody has looked at can be estimated"}
    if not unseen:
        return told | {"text": f"all {len(rows)} above the cut have been looked at or decided"}
    if sample < FEWEST:
        missing = FEWEST - sample
        return told | {"text": f"{missing} more spot checks in the order “worth a look” and an estimate can be given"}
    low, share, high = interval(states)
    said = f"of the {unseen} above the cut that nobody has looked at, {100 * share:.0f} % ({100 * low:.0f} to "
    return told | {"low": low, "share": share, "high": high, "text": said + f"{100 * high:.0f} %) would be removed"}


def interval(states: Sequence[Any], level: float = LEVEL) -> tuple[float, float, float]:
    """Low end, estimate and high end of the share of the unseen that would be removed.

    `states` are those of all rows above the cut, in the random order: True (would be removed), False, None (looked at
    and left open), or "unseen". A row left open counts as either, whichever makes the interval wider.
    """
    n = len(states)
    m = next((i for i, state in enumerate(states) if state == "unseen"), n)
    unseen = sum(state == "unseen" for state in states)
    sure, open_ = (sum(state is kind for state in states[:m]) for kind in (True, None))
    known, unsure = (sum(state is kind for state in states) for kind in (True, None))
    low = at_least(n, m, sure, (1 - level) / 2) - known - unsure
    high = n - at_least(n, m, m - sure - open_, (1 - level) / 2) - known
    low, high = max(0, min(unseen, low)), max(0, min(unseen, high))
    middle = n * (sure + open_ / 2) / m - known - unsure / 2 if m else unseen / 2
    return low / unseen, min(max(middle, low), high) / unseen, high / unseen


def at_least(n: int, m: int, k: int, tail: float) -> int:
    """The smallest K of n for which k or more of a sample of m have a probability of `tail` at least; a tie, which
    rounding may put on either side, counts as one."""
    low, high = k, n - m + k
    while low < high:
        middle = (low + high) // 2
        if _upper(n, m, middle, k) >= tail * (1 - 1e-9):
            high = middle
        else:
            low = middle + 1
    return low


def _upper(n: int, m: int, total: int, k: int) -> float:
    """P(X ≥ k), X hypergeometric: how many of a sample of m out of n are among `total`."""
    return min(1.0, math.fsum(math.exp(_log(n, m, total, j)) for j in range(k, min(m, total) + 1)))


def _log(n: int, m: int, total: int, j: int) -> float:
    if m - j > n - total:
        return -math.inf
    return _choose(total, j) + _choose(n - total, m - j) - _choose(n, m)


def _choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def order_by_worth(table: Table) -> None:
    """Writes the order `worth`: near the cut and where the rankings are apart first, every third a spot check, what is
    decided or seen after that, and copies of what is decided last. It stands still until it is made again."""
    cut = table.cut
    with table.writing() as sql:
        rows = sql.execute("select at, rank, disagreement, spot, copy, decision > '', seen from causes").fetchall()
        at, rank, apart, spot, copy, decided, seen = np.array([tuple(row) for row in rows], dtype=float).T
        done = (decided > 0) | (seen > 0)
        settled = np.isin(copy, copy[decided > 0])
        late, last = done | settled, ~done & settled
        ranked = np.lexsort((-_worth(rank, np.nan_to_num(apart), cut), last, late))
        checks = np.flatnonzero((rank <= cut) & ~late)
        named = at.astype(int)
        places = _mixed(named[ranked].tolist(), named[checks[np.argsort(spot[checks])]].tolist())
        sql.execute("drop index if exists by_worth")
        sql.executemany("update causes set worth = ? where at = ?", enumerate(places))
        sql.execute("create index by_worth on causes (worth)")
        table.set("worth", cut)


def _worth(rank: np.ndarray, apart: np.ndarray, cut: int) -> np.ndarray:
    """Near the cut, counted in ranks and in proportion, more so where the rankings of the folder are apart."""
    near = np.minimum(rank, cut) / np.maximum(rank, cut) if cut else 1 / np.maximum(rank, 1)
    return near * (1 + apart)


def _mixed(ranked: Iterable[int], checks: Iterable[int]) -> list[int]:
    """Each once: the first list, with the next of the second at every third place."""
    queue, spots, taken, mixed = iter(ranked), iter(checks), set(), []
    while True:
        wanted = (spots, queue) if len(mixed) % EVERY == EVERY - 1 else (queue,)
        at = next((a for source in wanted for a in source if a not in taken), None)
        if at is None:
            return mixed
        taken.add(at)
        mixed.append(at)
