"""Models as people keep them: read without running what is in the file, written back the way they came."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amends.errors import BadInput
from amends.models.adapters import lent_by, read_adapter, with_adapter
from amends.models.estimators import Opened, module_of
from amends.models.huggingface import load_huggingface
from amends.models.loaded import Loaded
from amends.models.plain import function_named, load_plain

__all__ = ["Loaded", "Opened", "function_named", "load", "module_of"]


def load(
    *,
    function: str | None = None,
    options: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    huggingface: str | Path | None = None,
    task: str | None = None,
    adapter: str | Path | None = None,
    folder: str | Path = Path("."),
) -> Loaded:
    """A model from a function of the user's own or from a Hugging Face directory, with an adapter or without.

    `function` is "package.module:function", called with `options`; `weights` are safetensors or a state
    dict. Of `huggingface` the `task` is taken from its config unless given ("text-classification",
    "image-classification", "causal-lm"); its `options` are max_length, num_labels and problem_type. Of a
    model with an `adapter` only the adapter is trainable. Paths are relative to `folder`, where modules
    are looked for first; nothing is ever downloaded.
    """
    home = Path(folder)
    config = None if adapter is None else read_adapter(home / adapter)
    if (function is None) == (huggingface is None):
        what = "there is no model" if function is None else "there are two models"
        raise BadInput(f"{what}; model; give function = 'package.module:function', or huggingface = a directory")
    if huggingface is not None:
        if weights is not None:
            raise BadInput("the directory has weights of its own; weights; leave them out, or give a function")
        loaded = load_huggingface(home / huggingface, task, options or {}, lent_by(config or {}))
    else:
        if task is not None:
            raise BadInput(f"task is {task!r} for a function; task; leave it out: the function makes the model")
        loaded = load_plain(str(function), options or {}, weights, home)
    return loaded if adapter is None else with_adapter(loaded, home / adapter)
