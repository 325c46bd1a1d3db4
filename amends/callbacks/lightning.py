"""A callback for Lightning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amends.callbacks.recording import Recording
from amends.errors import BadInput
from amends.models import function_named
from amends.models.loaded import write_weights


def lightning(
    folder: str | Path,
    *,
    function: str,
    train: Any,
    evaluation: Any,
    options: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    method: str = "default",
) -> Any:
    """A Lightning callback that records the run: its steps, the weights it ends with, and an amends.toml.

    Pass the loader through it: `trainer.fit(module, record.watch(loader))`. `function` names the class of the module,
    "package.module:Class", in `folder` or installed, and `options` its arguments. `train` and `evaluation` are paths,
    or keys of these tables of an amends.toml; `train` must be the set that is trained on, in its order. `data` are the
    keys that both share. `method` is what `amends repair` will search with. A step costs a copy of the weights that
    are trained, on disk.
    """
    home = Path(folder)
    model = {"function": function, "weights": "model.safetensors", **({"options": dict(options)} if options else {})}
    function_named(function, home, str(home / "amends.toml"))
    return _recorded(Recording.of(home, model, {"data": data, "train": train, "evaluation": evaluation}, method))


def _recorded(run: Recording) -> Any:
    from lightning.pytorch import Callback

    class Recorded(Callback):
        """Steps as they are made; the weights at the end."""

        def watch(self, loader: Any) -> Any:
            return run.watch(loader)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.world_size > 1:
                raise BadInput(f"{trainer.world_size} processes train; callback; record a run of one process")

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            run.parts += 1

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            run.step(pl_module, optimizer)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            run.finish()
            write_weights(pl_module, run.folder)

    return Recorded()
