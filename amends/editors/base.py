"""The one protocol both steps of a repair are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from amends.evidence.factor import Factor
from amends.posteriors import Posterior


class Editor(Protocol):
    """Yields its path; the first item is where it starts, so that every step can be refused.

    An editor whose path has no end of its own also has `open_ended(posterior, factor) -> bool`;
    whoever follows it must then watch what the path costs. If it has `finer()` as well, that is the
    same editor in shorter steps, or None.
    """

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]: ...


def open_ended(editor: Editor, posterior: Posterior, factor: Factor) -> bool:
    """Whether the end of the path is the caller's to choose."""
    asked = getattr(editor, "open_ended", None)
    return asked is not None and len(factor) > 0 and asked(posterior, factor)


def finer(editor: Any) -> Any:
    """The same editor or climber in shorter steps, or None where it has no step to shorten."""
    asked = getattr(editor, "finer", None)
    return None if asked is None else asked()
