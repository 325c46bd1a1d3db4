"""Run folders of real repairs, and what a test asks of one."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pandas as pd
import torch

from amends.data import Records
from amends.export.kept import Kept
from amends.export.source import Source, label_words
from amends.runs.run import Run
from tests.projects import amends


def made(tmp_path_factory, name, project, *commands):
    folder = tmp_path_factory.mktemp(name)
    project(folder)
    before = os.getcwd()
    os.chdir(folder)
    torch.set_num_threads(1)
    try:
        for command in commands:
            assert amends(*command, "-q") == 0
    finally:
        os.chdir(before)
    return folder / "runs"


def at(run, name):
    return pd.read_csv(run / "dataset" / f"{name}.csv", dtype={"label": str, "id": str}).set_index("index")


def contents(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*")) if p.is_file()}  # fmt: skip


def numbers(run):
    metrics = Run.open(run).metrics
    rows = pd.read_csv(run / "curve.csv")
    return metrics, rows


TARGETS = {
    "real": (torch.tensor([[0.5], [2.0], [-1.0]]), (), {1: "3.25"}, {"label": [0.5, 3.25, -1.0]},
             "<Number ", {"number": 3.25}),
    "several": (torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]), ("wet", "cold"), {1: "[1, 0]"},
                {"wet": [0, 1, 0], "cold": [1, 0, 0]}, 'choice="multiple"', {"choices": ["wet"]}),
}  # fmt: skip


def small(target):
    """A table of three examples with numbers or several labels, the second of them relabelled; and what is wanted."""
    y, classes, said, columns, *shown = TARGETS[target]
    train = Records(torch.zeros(3, 1), y, classes=classes)
    cells = pd.DataFrame({"a": [1.0, 2.0, 3.0], **label_words(y, train)})
    return Source("row", train.x, train, cells, tuple(columns), True), Kept(np.arange(3), said), columns, shown
