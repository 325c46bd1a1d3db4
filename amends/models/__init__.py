"""Models as people keep them: read without running what is in the file, written back the way they came."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amends.errors import BadInput
from amends.models.loaded import Loaded
from amends.models.plain import function_named, load_plain

__all__ = ["Loaded", "function_named", "load"]


def load(
    *,
    function: str | None = None,
    options: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    folder: str | Path = Path("."),
) -> Loaded:
    """A model from a function of the user's own ("package.module:function", called with `options`) and a
    file of weights. Paths are relative to `folder`, where modules are looked for first."""
    if function is None:
        raise BadInput("there is no model; model; give function = 'package.module:function'")
    return load_plain(function, options or {}, weights, Path(folder))
