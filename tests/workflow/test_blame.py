"""An error in train is told of train, though other sets take its classes and columns."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from amends.config import read_config
from amends.errors import BadInput
from amends.workflow.job import open_job

MODEL = "import torch\n\n\ndef build():\n    return torch.nn.Linear(3, 3)\n"
CONFIG = '[model]\nfunction = "blamed_model:build"\n[data]\nlabel = "animal"\n[train]\npath = "train.csv"\n' \
         '[evaluation]\npath = "test.csv"\n'  # fmt: skip


def without_a_column(train):
    return train.drop(columns="f2")


def with_a_stray_class(train):
    return train.assign(animal=["cow", *train["animal"][1:]])


@pytest.mark.parametrize(
    ("damage", "why"),
    [(without_a_column, "^the model cannot take the inputs of train "),
     (with_a_stray_class, r"^train\[\d+\] has the label 'fox', one of 4 in the data \(cat, cow, dog, fox\), but ")],
)  # fmt: skip
def test_a_table_that_is_spoilt(tmp_path, damage, why):
    torch.manual_seed(0)
    (tmp_path / "blamed_model.py").write_text(MODEL)
    (tmp_path / "amends.toml").write_text(CONFIG)
    for name, n in (("train", 60), ("test", 30)):
        frame = pd.DataFrame(torch.randn(n, 3).numpy(), columns=["f0", "f1", "f2"])
        frame = frame.assign(animal=[("cat", "dog", "fox")[i % 3] for i in range(n)])
        (damage(frame) if name == "train" else frame).to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.raises(BadInput, match=why):
        open_job(read_config(tmp_path / "amends.toml"))
