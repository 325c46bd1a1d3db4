"""A model as it was read, and how to write it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from amends.data.examples import Inputs


@dataclass(frozen=True, eq=False, kw_only=True)
class Loaded:
    """A model as it was read, and how to write it back in the same form.

    `encode` turns raw texts or images into inputs, if the model comes with a tokenizer or image
    processor; `likelihood` is set if the model implies one; `files` are the files it was read from.
    `write(model, folder)` fills an existing, empty folder.
    """

    model: nn.Module
    write: Callable[[nn.Module, Path], None]
    classes: tuple[str, ...] = ()
    encode: Callable[[list[Any]], Inputs] | None = None
    likelihood: Any = None
    files: tuple[Path, ...] = ()


def write_weights(model: nn.Module, folder: Path) -> None:
    """Writes model.safetensors; tied weights are stored once, and the other names refer to it."""
    from safetensors.torch import save_model

    save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})
