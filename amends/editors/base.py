"""The one protocol both steps of a repair are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from amends.factor import Factor
from amends.posteriors import Posterior


class Editor(Protocol):
    """Yields its path; the first item is where it starts, so that every step can be refused."""

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]: ...
