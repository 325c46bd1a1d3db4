"""Which examples each figure of a result is about, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

OVER = {
    "query": "failures searched with",
    "holdout": "failures that only judge",
    "remaining": "examples that were right and only judge",
    "overall": "of holdout and remaining, in the proportion given",
    "evaluation": "held-out examples, including those used to search",
}
LEARNED = {"evaluation": "held-out examples, including those it learned from"}


def of(name: str, learned: bool) -> str:
    """Which examples an accuracy is about; `learned` says whether the repair learned from the failures."""
    return LEARNED.get(name, OVER[name]) if learned else OVER[name]


def over(name: str, number: int, learned: bool = False) -> str:
    """How many, and what they are."""
    words = of(name, learned)
    one = words.replace("failures that only judge", "failure that only judges").replace("failures", "failure")
    one = one.replace("examples that were right and only judge", "example that was right and only judges")
    return f"{number} {words if number != 1 else one.replace('examples', 'example')}"


def judged_on(metrics: Mapping[str, Any]) -> str:
    """The name of the failures that a result is judged on: all of them search where none was held out."""
    return "holdout" if metrics["holdout"]["n"] else "query"


def forgetting_alone(metrics: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The row of the curve with the same causes gone and nothing learned; None where nothing was learned anyway."""
    same = (row for row in metrics["curve"] if row["by"] == "causes" and row["removed"] == metrics["removed"])
    return next(same, None) if metrics["learned"] else None


def conflicting(total: int, scores: Sequence[float], members: Sequence[Mapping[str, Any]]) -> int:
    """How many of train conflict with the failures: as many labels as members with a weight show to be wrong; where
    they show none, all with a positive score."""
    wrong = round(total * max((m.get("wrong", 0.0) for m in members if m["weight"]), default=0.0))
    return wrong or sum(score > 0 for score in scores)
