"""Compares the targets of two sets."""

from __future__ import annotations

from amends.errors import BadInput
from amends.evidence.factor import Factor


def alike(a: Factor, b: Factor) -> bool:
    """Whether two sets have the same kind of targets, so that a model can be trained on both together."""
    y, z = a.examples.y, b.examples.y
    return y.ndim == z.ndim and y.is_floating_point() == z.is_floating_point()


def together(train: Factor, other: Factor | None) -> None:
    """BadInput unless a model can be trained on both sets together. Called before anything is computed."""
    if other is None or not len(train) or not len(other) or not alike(train, other):
        return
    try:
        (train.examples[:1] + other.examples[:1]).fetch(0, 2)
    except BadInput as e:
        what, _, todo = str(e).partition("; ")
        raise BadInput(f"{what}; {train.examples.name} and {other.examples.name}; {todo}") from e
