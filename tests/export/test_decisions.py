"""Decisions as a person has left them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd

from amends import export


def test_decisions_are_those_a_person_left_in_the_csv(digits, tmp_path):
    run = shutil.copytree(digits / "found", tmp_path / "found")
    frame = pd.read_csv(run / "causes.csv")
    frame["decision"] = ["remove", "keep", *[""] * (len(frame) - 2)]
    frame.to_csv(run / "causes.csv", index=False)
    export.to_label_studio(run, tmp_path / "tasks.json", data=(*np.load(digits.parent / "train.npz").values(),), top=3)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [t["meta"]["decision"] for t in tasks] == ["remove", "keep", ""]
    assert export.issues(run)["is_label_issue"].sum() == 1
