"""A callback for Hugging Face's Trainer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amends.callbacks.recording import Recording
from amends.errors import BadInput


def huggingface(
    folder: str | Path,
    *,
    train: Any,
    evaluation: Any,
    data: Mapping[str, Any] | None = None,
    base: str | Path | None = None,
    method: str = "default",
) -> Any:
    """A TrainerCallback that records the run: its steps, the model it ends with, and an amends.toml.

    `train` and `evaluation` are paths, or keys of these tables of an amends.toml; `train` must be the set that is
    trained on, in its order. `data` are the keys that both share. A model with an adapter needs `base`, the directory
    of the model below it. `method` is what `amends repair` will search with. A step costs a copy of the weights that
    are trained, on disk.
    """
    home = Path(folder)
    model = {"huggingface": "model"}
    if base is not None:
        below = Path(os.path.relpath(Path(base).resolve(), home.resolve())).as_posix()
        model = {"huggingface": below, "adapter": "model"}
    return _recorded(Recording.of(home, model, {"data": data, "train": train, "evaluation": evaluation}, method))


def _recorded(run: Recording) -> Any:
    from transformers import TrainerCallback

    class Recorded(TrainerCallback):
        """Steps as they are made; the model at the end."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if args.world_size > 1:
                raise BadInput(f"{args.world_size} processes train; callback; record a run of one process")
            if state.global_step > 0:
                raise BadInput("the run goes on from a checkpoint; callback; record a run from its start")
            if args.load_best_model_at_end:
                raise BadInput("the best model is not where the run ends; callback; set load_best_model_at_end=False")
            run.watch(more["train_dataloader"])

        def on_substep_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            run.parts += 1

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            run.parts += 1
            run.step(more["model"], more["optimizer"])

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            run.finish()
            more["model"].save_pretrained(run.folder / "model")
            if more.get("processing_class") is not None:
                more["processing_class"].save_pretrained(run.folder / "model")

    return Recorded()
