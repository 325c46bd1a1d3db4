"""The protocol of an editor, which both steps of a repair use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from amends.evidence.factor import Factor
from amends.posteriors import Posterior


class Editor(Protocol):
    """Yields the points of a path. The first is the start, so that a caller can refuse every step.

    An editor whose path has no end of its own also has `open_ended(posterior, factor) -> bool`; its
    caller must then watch what the path costs. It may also have `finer()`, which returns the same editor
    with shorter steps, or None.
    """

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]: ...


def open_ended(editor: Editor, posterior: Posterior, factor: Factor) -> bool:
    """Whether the caller has to choose the end of the path."""
    method = getattr(editor, "open_ended", None)
    return method is not None and len(factor) > 0 and method(posterior, factor)


def finer(editor: Any) -> Any:
    """The same editor or climber with shorter steps, or None if it has no steps to shorten."""
    method = getattr(editor, "finer", None)
    return None if method is None else method()
