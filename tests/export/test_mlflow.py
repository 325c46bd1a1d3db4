"""Results in an MLflow store, read back with its own client."""

from __future__ import annotations

import os

from tests.export.folders import numbers
from tests.projects import amends


def test_mlflow_reads_its_store(digits, tmp_path, listener, monkeypatch):
    assert amends("export", digits / "whole", "--to", "mlflow", "-o", tmp_path / "store") == 0
    assert amends("export", digits / "found", "--to", "mlflow", "-o", tmp_path / "store") == 0
    from mlflow import MlflowClient

    assert not os.environ.get("MLFLOW_ALLOW_FILE_STORE")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient(tracking_uri=(tmp_path / "store").as_uri())
    runs = client.search_runs([client.get_experiment_by_name("amends").experiment_id])
    kept = {run.info.run_name: run for run in runs}
    assert set(kept) == {"whole", "found"}
    metrics, rows = numbers(digits / "whole")
    found = kept["whole"].data
    assert found.params["repair.treat"] == "fine_tune"
    assert found.params["data.train.n"] == "300"
    assert found.metrics["holdout/after"] == metrics["holdout"]["after"]
    assert found.metrics["fixed"] == metrics["fixed"]
    assert found.metrics["newly_broken"] == metrics["newly_broken"]
    assert found.metrics["removed"] == 30
    assert found.tags["amends.verdict"] == metrics["verdict"]
    steps = client.get_metric_history(kept["whole"].info.run_id, "curve/causes/holdout")
    curve = rows[rows["by"] == "causes"]
    assert [(m.step, m.value) for m in steps] == list(zip(curve["removed"], curve["holdout"], strict=True))
    names = {f.path for f in client.list_artifacts(kept["whole"].info.run_id)}
    assert {"report.html", "causes.csv", "metrics.json"} <= names
    assert kept["found"].data.metrics == {}
    assert not listener
