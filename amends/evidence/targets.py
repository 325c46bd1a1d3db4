"""What targets of two sets have in common."""

from __future__ import annotations

from amends.errors import BadInput
from amends.evidence.factor import Factor


def alike(a: Factor, b: Factor) -> bool:
    """Whether targets are of one kind, so that the two can be learned together."""
    y, z = a.examples.y, b.examples.y
    return y.ndim == z.ndim and y.is_floating_point() == z.is_floating_point()


def together(train: Factor, other: Factor | None) -> None:
    """BadInput unless examples of both can be learned together: seen before anything is computed."""
    if other is None or not len(train) or not len(other) or not alike(train, other):
        return
    try:
        (train.examples[:1] + other.examples[:1]).fetch(0, 2)
    except BadInput as e:
        what, _, todo = str(e).partition("; ")
        raise BadInput(f"{what}; {train.examples.name} and {other.examples.name}; {todo}") from e
