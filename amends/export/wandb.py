"""A run for Weights & Biases: config, summary, the curve by step, and the report as a file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from amends.errors import DiskError, first_line
from amends.export.files import Exported, as_run, library, place, write_folder
from amends.export.results import PROJECT, curve, environment, files, measured, parameters, verdict
from amends.runs.run import Run


def to_wandb(run: Any, out: Any = None, *, online: bool = False, project: str = PROJECT) -> Exported:
    """A folder with an offline run of Weights & Biases, which `wandb sync FOLDER/wandb/offline-run-*` sends later.

    Nothing leaves the machine unless `online`; then the run is sent as it is written, with the user's own login.
    """
    run = as_run(run)
    target = place(run, "wandb", out)
    quiet = {} if online else {"WANDB_ERROR_REPORTING": "false", "WANDB_MODE": "offline"}
    counted: list[int] = []
    # its service writes logs to the user's home unless it has a cache of its own
    with tempfile.TemporaryDirectory() as cache, environment(**quiet, WANDB_CACHE_DIR=cache):
        wandb = library("wandb", "wandb")

        def fill(folder: Path) -> None:
            counted.append(_log(wandb, run, folder, online, project))

        try:
            write_folder(target, fill)
        except wandb.Error as e:
            raise DiskError(f"Weights & Biases failed ({first_line(e)}); {target}; see its log") from e
    then = "" if online else f"send it with wandb sync {target}/wandb/offline-run-*"
    return Exported("wandb", target, counted[0], then)


def _log(wandb: Any, run: Run, folder: Path, online: bool, project: str) -> int:
    settings = wandb.Settings(
        silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True, x_disable_meta=True,
        x_save_requirements=False,
    )  # fmt: skip
    with wandb.init(
        dir=str(folder), mode="online" if online else "offline", project=project, name=run.name, config=parameters(run),
        settings=settings, reinit="create_new",
    ) as log:  # fmt: skip
        n = 0
        log.define_metric("curve/*", step_metric="curve/removed")
        for removed, row in curve(run):
            log.log({"curve/removed": removed, **row})
            n += len(row)
        for name, value in measured(run).items():
            log.summary[name] = value
            n += 1
        log.summary["verdict"] = verdict(run)
        for path in files(run):  # into the run's own folder, so that it can be moved and sent later
            shutil.copyfile(path, Path(log.dir) / path.name)
            log.save(str(Path(log.dir) / path.name), base_path=log.dir, policy="now")
    return n
