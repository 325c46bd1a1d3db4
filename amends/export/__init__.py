"""Runs for other tools: a run folder comes in; cleaned data, decisions, results or an adapter go out.

Each function takes a run folder and a target (None: beside the run), and writes the target whole or not at all.
Nothing is computed, except that an adapter is judged again; nothing is sent anywhere unless the user asks for it.
Train is read as the run's config says; pass `data` for a run that was made in Python.
"""

from __future__ import annotations

from typing import Any

from amends.data.records import Records
from amends.export.cleanlab import issues, to_cleanlab
from amends.export.fiftyone import to_fiftyone
from amends.export.files import Exported, as_run
from amends.export.huggingface import to_huggingface
from amends.export.kept import Kept
from amends.export.label_studio import to_label_studio
from amends.export.lora import to_lora
from amends.export.mlflow import to_mlflow
from amends.export.pictures import to_images
from amends.export.source import source
from amends.export.tables import to_csv
from amends.export.tensorboard import to_tensorboard
from amends.export.wandb import to_wandb

__all__ = [
    "Exported", "cleaned", "issues", "to_cleanlab", "to_csv", "to_fiftyone", "to_huggingface",
    "to_images", "to_label_studio", "to_lora", "to_mlflow", "to_tensorboard", "to_wandb",
]  # fmt: skip


def cleaned(run: Any, data: Any = None) -> Records:
    """The kept examples of a finished run as the model takes them, changed labels in place.

    Retrain on `cleaned(run).x` and `.y`; `data` is train itself, for a run that was made in Python.
    """
    opened = as_run(run)
    kept = Kept.of(opened)
    return kept.of_records(source(opened, data).records)
