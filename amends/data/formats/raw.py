"""What every format returns: inputs as they are stored, labels, and the user's own columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from amends.data.views import Rows
from amends.errors import BadInput, nearest

IMAGE, TEXT, ROW = "image", "text", "row"
COLUMNS = ("split", "label", "image", "text", "features", "id", "messages", "prompt", "response")  # keys of a set


@dataclass(frozen=True)
class Asked:
    """What the caller asks for; None where it is left to the format."""

    split: str | None = None
    label: str | Sequence[str] | None = None
    image: str | None = None
    text: str | None = None
    features: str | Sequence[str] | None = None
    id: str | None = None
    messages: str | None = None
    prompt: str | None = None
    response: str | None = None
    classes: tuple[str, ...] = ()
    target: str = "class"
    encoded: bool = False  # whether a transform or an encoder can take text
    scaled: bool = False  # whether the model takes other numbers than those of a table

    def refuse(self, where: Path, *names: str) -> None:
        """BadInput for a setting that this format does not have."""
        for name in names:
            if getattr(self, name) is not None:
                raise BadInput(f"{name} cannot be used here; {where}; leave it out")


@dataclass(frozen=True, eq=False)
class Raw:
    """One entry per example, in the order of the file.

    An image is a file, the bytes of one, or an array [C, H, W] (uint8, or numbers from 0 to 1). Labels are
    names, numbers, or indices into `classes`; None where there are none. `call` names example i in an error.
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
        """The name of example i, for an error."""
        return f"{self.where}[{i}]" if self.call is None else self.call(i)

    def only(self, at: np.ndarray) -> Raw:
        """Some of them, in that order."""
        return replace(
            self,
            inputs=self.inputs[at] if isinstance(self.inputs, np.ndarray) else Rows(self.inputs, at),
            labels=None if self.labels is None else self.labels[at],
            columns={name: values[at] for name, values in self.columns.items()},
            call=lambda i: self.at(int(at[i])),
        )


def split_of(asked: str | None, known: Sequence[str], where: Path) -> str:
    """The split that was asked for; if none was, the only one there is."""
    if asked is None and len(known) == 1:
        return known[0]
    if asked is None:
        raise BadInput(f"there are several splits ({', '.join(known)}); {where}; choose one with split")
    if asked not in known:
        raise BadInput(f"there is no split {asked!r}; {where}; {nearest(asked, known)}")
    return asked
