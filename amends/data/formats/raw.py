"""What every format gives: inputs as they lie in the file, labels, and the user's own columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from amends.errors import BadInput, nearest

IMAGE, TEXT, ROW = "image", "text", "row"


@dataclass(frozen=True)
class Asked:
    """What the caller said about the file; None where it is left to the format."""

    split: str | None = None
    label: str | Sequence[str] | None = None
    image: str | None = None
    text: str | None = None
    features: str | Sequence[str] | None = None
    id: str | None = None
    classes: tuple[str, ...] = ()
    target: str = "class"
    encoded: bool = False  # whether something stands ready to take texts

    def refuse(self, where: Path, *names: str) -> None:
        """BadInput for a setting this format has no place for."""
        for name in names:
            if getattr(self, name) is not None:
                raise BadInput(f"{name} is no setting of this format; {where}; leave it out")


@dataclass(frozen=True, eq=False)
class Raw:
    """One entry an example, in the order of the file.

    An image is a file, the bytes of one, or an array [C, H, W] (uint8, or numbers from 0 to 1). Labels are
    names, numbers, or indices into `classes` where `named`; None where the format has none.
    """

    kind: str
    inputs: Sequence[Any] | np.ndarray
    labels: np.ndarray | None
    where: str
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    call: Callable[[int], str] | None = None

    def at(self, i: int) -> str:
        """What a person calls example i."""
        return f"{self.where}[{i}]" if self.call is None else self.call(i)


def split_of(asked: str | None, known: Sequence[str], where: Path, default: str | None = None) -> str:
    """The one of the known splits that was asked for; the only one, or the default, where none was."""
    if asked is None and (default is not None or len(known) == 1):
        return known[0] if default is None else default
    if asked is None:
        raise BadInput(f"there are several splits ({', '.join(known)}); {where}; choose one with split")
    if asked not in known:
        raise BadInput(f"no split {asked!r}; {where}; {nearest(asked, known)}")
    return asked
