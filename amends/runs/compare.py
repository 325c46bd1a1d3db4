"""How two runs differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amends.data.decisions import GONE
from amends.runs.run import DONE, Run


def difference(one: Run, other: Run) -> dict[str, Any]:
    """Settings and results that differ, each as [one, other], and the causes that only one of them removed."""
    a, b = (flat({k: v for k, v in r.about.items() if k in ("config", "data", "model", "run")}) for r in (one, other))
    skip = {"run.name", "run.made", "run.state", "run.folder"}
    settings = {k: [a.get(k), b.get(k)] for k in sorted((a.keys() | b.keys()) - skip) if a.get(k) != b.get(k)}
    differs: dict[str, Any] = {"settings": settings}
    if one.state == other.state == DONE:
        names = ("verdict", "query", "holdout", "remaining", "overall", "fixed", "newly_broken", "removed")
        m, n = ({k: r.metrics.get(k) for k in names} for r in (one, other))
        differs["results"] = {k: [m[k], n[k]] for k in names if m[k] != n[k]}
    gone = [set(_removed(r)) for r in (one, other)]
    differs["causes"] = {"both": len(gone[0] & gone[1]), "only_one": sorted(gone[0] - gone[1]),
                         "only_other": sorted(gone[1] - gone[0])}  # fmt: skip
    return differs


def _removed(run: Run) -> list[int]:
    frame = run.causes()
    return frame.loc[frame["decision"].isin(GONE), "index"].tolist()


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one: {"repair": {"seed": 0}} is {"repair.seed": 0}."""
    values = {}
    for key, value in tables.items():
        values |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return values
