"""A run for MLflow: parameters, metrics, the curve by step, and the report as an artifact."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from amends.errors import BadInput, DiskError, first_line
from amends.export.files import Exported, as_run, library, outside
from amends.export.results import PROJECT, curve, environment, files, measured, parameters, verdict
from amends.runs.run import Run

LONGEST = 500  # characters of a parameter, which every MLflow store takes


def to_mlflow(run: Any, out: Any = None, *, tracking_uri: str | None = None, project: str = PROJECT) -> Exported:
    """Adds a run to an MLflow store: the folder `out`, or ./mlruns; or a server, where `tracking_uri` names one.

    With a folder nothing leaves the machine. It is MLflow's file store: look at it with
    MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri FOLDER. `project` is the experiment.
    """
    run = as_run(run)
    if out is not None and tracking_uri is not None:
        raise BadInput("both a folder and a server are given; -o and --tracking-uri; give one of them")
    folder = Path("mlruns" if out is None else out)
    if tracking_uri is None:
        outside(run, folder)
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"the MLflow store is a file; {folder}; give a folder")
    where = folder.resolve().as_uri() if tracking_uri is None else tracking_uri
    with environment(MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_ALLOW_FILE_STORE="true"):
        mlflow = library("mlflow", "mlflow")
        try:
            n = _log(mlflow.MlflowClient(tracking_uri=where), run, project)
        except (mlflow.exceptions.MlflowException, OSError) as e:
            raise DiskError(f"MLflow failed ({first_line(e)}); {where}; choose another store") from e
    if tracking_uri is not None:
        return Exported("mlflow", Path(tracking_uri), n)
    look = f"MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {folder}"
    return Exported("mlflow", folder, n, f"look at it with {look}")


def _log(client: Any, run: Run, project: str) -> int:
    from mlflow.entities import Metric, Param, RunTag

    known = client.get_experiment_by_name(project)
    experiment = client.create_experiment(project) if known is None else known.experiment_id
    created = client.create_run(experiment, run_name=run.name)
    now, key, state = int(time.time() * 1000), created.info.run_id, "FAILED"
    try:
        params = [Param(k, str(v)[:LONGEST]) for k, v in parameters(run).items()]
        numbers = [Metric(k, v, now, 0) for k, v in measured(run).items()]
        numbers += [Metric(k, v, now, step) for step, row in curve(run) for k, v in row.items()]
        for start in range(0, len(params), 100):
            client.log_batch(key, params=params[start : start + 100])
        for start in range(0, len(numbers), 500):
            client.log_batch(key, metrics=numbers[start : start + 500])
        client.log_batch(key, tags=[RunTag("amends.verdict", verdict(run))])
        for path in files(run):
            client.log_artifact(key, str(path))
        state = "FINISHED"
    finally:
        client.set_terminated(key, status=state)
    return len(numbers)
