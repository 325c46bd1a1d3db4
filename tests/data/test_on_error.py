"""Examples of a file that cannot be read: named, or left out where the user says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import amends
from amends.cli.app import run
from amends.errors import BadInput
from amends.export.files import as_run
from amends.export.source import source

N, BROKEN = 40, (3, 17)
MODEL = """
import torch
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
"""
CONFIG = """
[model]
function = "my_flat:build"
[data]
gray = true
label = "label"
image = "path"
id = "name"
{more}
[train]
path = "train.csv"
[evaluation]
path = "test.csv"
[repair]
method = "grad_dot"
treat = "fine_tune"
treat_options = {{ epochs = 1 }}
top = 4
anyway = true
"""


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n in (("train", N), ("test", 60)):
        (tmp_path / name).mkdir()
        pixels = rng.integers(0, 255, (n, 4, 4), dtype=np.uint8)
        rows = [
            {"path": f"{name}/{i}.png", "label": int(p.mean() > 127), "name": f"{name}-{i}"}
            for i, p in enumerate(pixels)
        ]
        for row, p in zip(rows, pixels, strict=True):
            Image.fromarray(p).save(tmp_path / row["path"])
        pd.DataFrame(rows).to_csv(f"{name}.csv", index=False)
    for i in BROKEN:
        (tmp_path / f"train/{i}.png").write_bytes(b"\x89PNG and no more")
    (tmp_path / "my_flat.py").write_text(MODEL)
    return tmp_path


def test_what_cannot_be_read_is_left_out_and_said(pictures):
    ask = {"image": "path", "label": "label", "gray": True}
    with pytest.raises(BadInput, match=r"the image cannot be read .*train.csv line 5"):
        amends.data.read("train.csv", **ask)
    with pytest.warns(UserWarning, match=r"2 of the 40 examples of train.csv cannot be read.*line 5 first"):
        data = amends.data.read("train.csv", on_error="skip", **ask)
    left = [i for i in range(N) if i not in BROKEN]
    assert data.columns["row"].tolist() == left
    assert data.columns["name"].tolist() == [f"train-{i}" for i in left]
    table = pd.read_csv("train.csv")
    assert data.y.tolist() == table["label"][left].tolist()
    assert len(data.x) == len(left)
    whole = amends.data.read("test.csv", on_error="skip", **ask)
    assert "row" not in whole.columns
    assert torch.equal(whole.x, amends.data.read("test.csv", **ask).x)
    with pytest.raises(BadInput, match="on_error is 'ignore'"):
        amends.data.read("test.csv", on_error="ignore", **ask)
    (pictures / "test.csv").write_text("path,label\nnowhere.png,1\n")
    with pytest.raises(BadInput, match="no example can be read"):
        amends.data.read("test.csv", on_error="skip", **ask)


def test_the_command_line_says_it_for_every_set(pictures, capsys):
    """Also where a set says otherwise; the run is then of a config that says so."""
    (pictures / "amends.toml").write_text(
        CONFIG.format(more="").replace("[evaluation]", 'on_error = "stop"\n[evaluation]')
    )
    assert run(["identify", "-o", "run", "--on-error", "skip", "-q"]) == 0
    assert "2 of the 40 examples" in capsys.readouterr().err
    assert (pictures / "run/run.toml").read_text().count("on_error") == 1
    assert run(["check", "--on-error", "never"]) == 2


def test_a_config_goes_on_without_it_and_the_export_keeps_rows_together(pictures, capsys):
    (pictures / "amends.toml").write_text(CONFIG.format(more=""))
    assert run(["repair", "-o", "run"]) == 2
    assert "train.csv line 5" in capsys.readouterr().err
    (pictures / "amends.toml").write_text(CONFIG.format(more='on_error = "skip"'))
    assert run(["repair", "-o", "run"]) == 0
    assert "2 of the 40 examples" in capsys.readouterr().err
    causes = pd.read_csv("run/causes.csv")
    assert len(causes)
    assert all(f"train-{row}" == name for row, name in zip(causes["row"], causes["id"], strict=True))
    with pytest.warns(UserWarning, match="2 of the 40 examples"):
        train = source(as_run("run"))
    left = [i for i in range(N) if i not in BROKEN]
    assert train.table["name"].tolist() == [f"train-{i}" for i in left]
    assert [p.name for p in train.inputs] == [f"{i}.png" for i in left]
