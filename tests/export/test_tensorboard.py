"""Results as event files, read back with TensorBoard."""

from __future__ import annotations

import pytest

from amends.runs.run import runs_in
from tests.export.folders import numbers
from tests.projects import amends


def test_tensorboard_reads_the_events(digits, tmp_path, listener):
    assert amends("export", digits / "whole", "--to", "tensorboard", "-o", tmp_path / "log") == 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "log"), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    metrics, rows = numbers(digits / "whole")
    (after,) = events.Scalars("holdout/after")
    assert after.value == pytest.approx(metrics["holdout"]["after"], abs=1e-6)  # event files hold float32
    found = [(e.step, e.value) for e in events.Scalars("curve/causes/remaining")]
    curve = rows[rows["by"] == "causes"]
    assert [s for s, _ in found] == curve["removed"].tolist()
    assert [v for _, v in found] == pytest.approx(curve["remaining"].tolist(), abs=1e-6)
    (text,) = events.Tensors("causes/text_summary")
    assert b"| 1 | " in text.tensor_proto.string_val[0]
    assert {"report.html", "causes.csv"} <= {p.name for p in (tmp_path / "log").iterdir()}
    assert runs_in(tmp_path) == ([], [])
    assert not listener
