"""Models: files or an object of the user come in, an nn.Module goes out, and can be written back in the same form.

Files are read without running code from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amends.errors import BadInput
from amends.models.adapters import lent_by, read_adapter, with_adapter
from amends.models.chat import chat
from amends.models.estimators import Opened, module_of
from amends.models.huggingface import load_huggingface
from amends.models.loaded import Loaded
from amends.models.plain import function_named, load_plain

__all__ = ["Loaded", "Opened", "chat", "function_named", "load", "module_of"]


def load(
    *,
    function: str | None = None,
    options: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    huggingface: str | Path | None = None,
    task: str | None = None,
    adapter: str | Path | None = None,
    folder: str | Path = Path("."),
    unsafe_pickle: bool = False,
) -> Loaded:
    """A model from the user's own function or from a Hugging Face directory, with or without an adapter.

    `function` is "package.module:function", called with `options`; `weights` are safetensors or a state
    dict. For `huggingface`, a directory, `task` is "text-classification", "image-classification" or "causal-lm",
    taken from its config when None; its `options` are max_length, num_labels, problem_type
    and, with an adapter, dtype for the base. With an
    `adapter`, only the adapter is trainable. Paths are relative to `folder`, where modules are looked for
    first; nothing is ever downloaded. `unsafe_pickle` unpickles `weights` that hold more than tensors, which runs
    whatever code is in the file.
    """
    home = Path(folder)
    config = None if adapter is None else read_adapter(home / adapter)
    if (function is None) == (huggingface is None):
        what = "neither function nor huggingface is" if function is None else "both function and huggingface are"
        raise BadInput(f"{what} given; model; give function = 'package.module:function', or huggingface = a directory")
    if huggingface is not None:
        if weights is not None:
            raise BadInput(
                "weights cannot be used with huggingface, which has its own; leave them out, or give a function"
            )
        loaded = load_huggingface(home / huggingface, task, options or {}, lent_by(config or {}))
    else:
        if task is not None:
            raise BadInput(f"task is {task!r}, but task is for huggingface only; leave it out")
        loaded = load_plain(str(function), options or {}, weights, home, unsafe_pickle)
    return loaded if adapter is None else with_adapter(loaded, home / adapter)
