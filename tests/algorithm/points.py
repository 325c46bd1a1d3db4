"""Points of a curve with made-up accuracies."""

from __future__ import annotations

from amends.algorithm.curve import CAUSES, CurvePoint, Fit, Limits, Rule
from amends.algorithm.objective import Objective


def point(removed, query, guard=1.0, kept=(), by=CAUSES):
    """`query` is one share, or those of several fits."""
    shares = query if isinstance(query, list) else [query]
    return CurvePoint(by, removed, tuple(Fit({}, q, guard, tuple(kept)) for q in shares))


def rule(least=None, least_kept=(), failures=0.5, costs=1.0):
    names = tuple(f"keep[{i}]" for i in range(len(least_kept)))
    limits = Limits(least, None, tuple(least_kept), names)
    return Rule(Objective(failures, costs), limits)


def kinds_of_points(result):
    """What was removed at the points of a repair's curve: causes, nothing, as many at random."""
    return {row["by"] for row in result.metrics["curve"]}
