"""What targets of two sets have in common."""

from __future__ import annotations

from amends.evidence.factor import Factor


def alike(a: Factor, b: Factor) -> bool:
    """Whether targets are of one kind, so that the two can be learned together."""
    y, z = a.examples.y, b.examples.y
    return y.ndim == z.ndim and y.is_floating_point() == z.is_floating_point()
