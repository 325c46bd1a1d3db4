"""When to stop looking: which examples are worth a look, and how many of the unseen ones would be removed.

Every row has a place in a random order that was drawn once, before anybody looked. The first m of those above the cut
are a sample without replacement of all N of them, whatever else was looked at and why. Of the sample k would be
removed. The exact interval for the number K of such rows among all N holds every K under which k, which is
hypergeometric, is not among the rarest 2.5 % on either side. Rows already known are then subtracted from K.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from amends.config.decisions import GONE
from amends.web.table import Table

FEWEST = 10  # spot checks needed for an estimate
LEVEL = 0.95
EVERY = 3  # in the order `worth`, every third row is a spot check


def estimate(table: Table) -> dict[str, Any]:
    """Of the rows above the cut that were neither decided nor seen, the share that would be removed or relabelled."""
    cut = table.cut
    rows = table.all("select decision, seen from causes where rank <= ? order by +spot", [cut])
    states = [(row["decision"] in GONE) if row["decision"] else (None if row["seen"] else "unseen") for row in rows]
    unseen = sum(state == "unseen" for state in states)
    sample = next((i for i, state in enumerate(states) if state == "unseen"), len(states))
    result: dict[str, Any] = {"above": len(rows), "unseen": unseen, "sample": sample, "low": None, "share": None,
                            "high": None, "text": ""}  # fmt: skip
    if not cut:
        return result | {"text": "set a cut first, under How many: then what nobody has looked at can be estimated"}
    if not unseen:
        return result | {"text": f"all {len(rows)} above the cut have been looked at or decided"}
    if sample < FEWEST:
        missing = FEWEST - sample
        return result | {"text": f"{missing} more spot checks in the order “worth a look” and an estimate can be given"}
    low, share, high = interval(states)
    text = f"of the {unseen} above the cut that nobody has looked at, {100 * share:.0f} % ({100 * low:.0f} to "
    return result | {"low": low, "share": share, "high": high, "text": text + f"{100 * high:.0f} %) would be removed"}


def interval(states: Sequence[Any], level: float = LEVEL) -> tuple[float, float, float]:
    """Low end, estimate and high end of the share of the unseen that would be removed.

    `states` are those of all rows above the cut, in the random order: True (would be removed), False, None (looked at
    and left open), or "unseen". A row left open counts as either, whichever makes the interval wider.
    """
    n = len(states)
    m = next((i for i, state in enumerate(states) if state == "unseen"), n)
    unseen = sum(state == "unseen" for state in states)
    sample_removed, sample_open = (sum(state is kind for state in states[:m]) for kind in (True, None))
    all_removed, all_open = (sum(state is kind for state in states) for kind in (True, None))
    low = at_least(n, m, sample_removed, (1 - level) / 2) - all_removed - all_open
    high = n - at_least(n, m, m - sample_removed - sample_open, (1 - level) / 2) - all_removed
    low, high = max(0, min(unseen, low)), max(0, min(unseen, high))
    middle = n * (sample_removed + sample_open / 2) / m - all_removed - all_open / 2 if m else unseen / 2
    return low / unseen, min(max(middle, low), high) / unseen, high / unseen


def at_least(n: int, m: int, k: int, tail: float) -> int:
    """The smallest K of n under which k or more in a sample of m have a probability of at least `tail`. Rounding must
    not matter, so a probability that is equal to `tail` counts."""
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
    """Writes the order `worth`: rows near the cut on which the rankings differ first, every third a spot check, then
    rows decided or seen, last copies of decided rows. The order stays until this is called again."""
    cut = table.cut
    with table.writing() as sql:
        rows = sql.execute("select at, rank, disagreement, spot, copy, decision > '', seen from causes").fetchall()
        at, rank, disagreement, spot, copy, decided, seen = np.array([tuple(row) for row in rows], dtype=float).T
        done = (decided > 0) | (seen > 0)
        settled = np.isin(copy, copy[decided > 0])
        late, last = done | settled, ~done & settled
        ranked = np.lexsort((-_worth(rank, np.nan_to_num(disagreement), cut), last, late))
        checks = np.flatnonzero((rank <= cut) & ~late)
        named = at.astype(int)
        places = _mixed(named[ranked].tolist(), named[checks[np.argsort(spot[checks])]].tolist())
        sql.execute("drop index if exists by_worth")
        sql.executemany("update causes set worth = ? where at = ?", enumerate(places))
        sql.execute("create index by_worth on causes (worth)")
        table.set("worth", cut)


def _worth(rank: np.ndarray, disagreement: np.ndarray, cut: int) -> np.ndarray:
    """How near a row is to the cut, as a ratio of ranks; higher where the rankings of the folder differ."""
    near = np.minimum(rank, cut) / np.maximum(rank, cut) if cut else 1 / np.maximum(rank, 1)
    return near * (1 + disagreement)


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
