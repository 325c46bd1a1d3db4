"""A run for TensorBoard: event files with numbers and the curve, and the report next to them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from amends.export.decisions import decisions
from amends.export.files import Exported, as_run, library, place, write_folder
from amends.export.results import curve, files, measured, parameters, verdict
from amends.runs.run import Run

SHOWN = 50  # causes in the text panel; causes.csv has all
COLUMNS = ("rank", "id", "index", "score", "given", "predicted", "suggested", "group", "decision")


def to_tensorboard(run: Any, out: Any = None) -> Exported:
    """A log folder: scalars before and after, the curve over how many were removed, settings and the strongest
    causes as text. An event file cannot hold other files, so report.html and causes.csv lie beside it."""
    run = as_run(run)
    target = place(run, "tensorboard", out)
    writer = library("torch.utils.tensorboard.writer", "tensorboard")
    counted: list[int] = []

    def fill(folder: Path) -> None:
        with writer.SummaryWriter(str(folder)) as log:
            counted.append(_log(log, run))
        for path in files(run):
            if path.name != "run.toml":  # with it the folder would be taken for a run
                shutil.copyfile(path, folder / path.name)

    write_folder(target, fill)
    return Exported("tensorboard", target, counted[0], f"look at it with tensorboard --logdir {target}")


def _log(log: Any, run: Run) -> int:
    log.add_text("verdict", verdict(run), 0)
    log.add_text("settings", _markdown([("setting", "value"), *parameters(run).items()]), 0)
    frame = decisions(run, SHOWN)
    log.add_text("causes", _markdown([COLUMNS, *frame[list(COLUMNS)].itertuples(index=False)]), 0)
    numbers = [(name, value, 0) for name, value in measured(run).items()]
    numbers += [(name, value, step) for step, row in curve(run) for name, value in row.items()]
    for name, value, step in numbers:
        log.add_scalar(name, value, step)
    return len(numbers)


def _markdown(rows: list[Any]) -> str:
    lines = ["| " + " | ".join(str(v).replace("|", "\\|").replace("\n", " ") for v in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
