"""LoRA and other adapters of peft: only the adapter is trainable, so only the adapter is edited and written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from amends.errors import BadInput, first_line, kind_of
from amends.models.huggingface import write_pretrained
from amends.models.loaded import Loaded


def read_adapter(where: Path) -> dict[str, Any]:
    """The config of an adapter."""
    try:
        config = json.loads((where / "adapter_config.json").read_text())
    except (OSError, ValueError, RecursionError) as e:
        raise BadInput(
            f"adapter_config.json cannot be read ({first_line(e)}); adapter {where}; give the folder that peft wrote"
        ) from e
    saved = config.get("modules_to_save") if isinstance(config, dict) else config
    if not isinstance(config, dict) or not (saved is None or _is_names(saved)):
        what = "modules_to_save is" if isinstance(config, dict) else "adapter_config.json holds"
        raise BadInput(f"{what} {kind_of(saved)}; adapter {where}; give the folder that peft wrote")
    if config.get("auto_mapping") and not isinstance(config["auto_mapping"], dict):
        raise BadInput(f"auto_mapping is {kind_of(config['auto_mapping'])}; adapter {where}; copy it again")
    return config


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def lent_by(config: dict[str, Any]) -> tuple[str, ...]:
    """Parts of the model that come with the adapter, such as the head of a classifier."""
    heads = ("classifier", "score") if config.get("task_type") == "SEQ_CLS" else ()
    return (*(config.get("modules_to_save") or ()), *heads)


def with_adapter(base: Loaded, where: Path) -> Loaded:
    """The base with the adapter on it; the base is frozen."""
    try:
        import peft
    except ImportError as e:
        raise BadInput("an adapter cannot be loaded without peft; run: pip install 'amends[peft]'") from e
    try:
        model = peft.PeftModel.from_pretrained(base.model, str(where), is_trainable=True, local_files_only=True)
    except Exception as e:
        raise BadInput(
            f"the adapter does not fit the model ({first_line(e)}); adapter {where}; give the model it was trained with"
        ) from e

    def write(repaired: nn.Module, folder: Path) -> None:
        write_pretrained(repaired, folder)

    files = tuple(p for p in sorted(where.iterdir()) if p.is_file() and not p.name.startswith("."))
    return replace(base, model=model.eval(), write=write, files=(*base.files, *files))
