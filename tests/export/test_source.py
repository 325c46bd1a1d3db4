"""Train of a run that was made in Python comes from the caller."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from amends import export
from amends.errors import RunMismatch
from tests.export.folders import at


@pytest.mark.parametrize("form", ["frame", "pair"])
def test_a_run_made_in_python_takes_its_data_from_the_caller(form, python, table, tmp_path):
    frame = table[1]
    pair = (torch.tensor(frame.filter(regex="^p").to_numpy()), frame["label"].to_numpy())
    export.to_csv(python / "whole", tmp_path / "clean.csv", data=frame if form == "frame" else pair)
    found, kept = pd.read_csv(tmp_path / "clean.csv"), at(python / "whole", "kept").index
    wanted = frame.iloc[kept].reset_index(drop=True)
    if form == "pair":
        wanted = wanted.drop(columns="note").rename(columns={f"p{i}": f"x{i}" for i in range(64)})
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


def test_other_data_than_the_runs_is_refused(python, table, tmp_path):
    other = table[1].assign(label=table[1]["label"].to_numpy()[::-1])
    with pytest.raises(RunMismatch, match="not what this run was made with"):
        export.to_csv(python / "whole", tmp_path / "clean.csv", data=other)
    with pytest.raises(RunMismatch, match="not what this run was made with"):
        export.cleaned(python / "whole", other)
