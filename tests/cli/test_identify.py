"""`amends identify`: the first half of a repair."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from tests.projects import DONE, amends


def test_identify_then_treat_is_the_same_repair(identified, repaired):
    """One in two steps, with a look between them, is the other."""
    assert amends("treat", identified, "-q") == 0
    assert (identified / "metrics.json").read_text() == (repaired / "metrics.json").read_text()
    assert {p.name for p in identified.iterdir()} == DONE
    table = pd.read_csv(identified / "causes.csv")
    assert len(table) == 300
    causes = pd.read_csv(repaired / "causes.csv")
    assert table.loc[table["decision"] == "remove", "index"].tolist() == causes["index"].tolist()


def test_identify_reads_nothing_that_judges(identified, project):
    with np.load(identified / "identified/scores.npz") as kept:
        assert len(kept["scores"]) == 300
        query = set(kept["query"].tolist())
    frame = pd.read_csv(identified / "causes.csv")
    against = {j for row in frame["conflicts_with"] for j in json.loads(row)}
    assert against <= query
    assert not (identified / "metrics.json").exists()


def test_a_search_says_which_failures_look_wrong_themselves(identified):
    rows = pd.read_csv(identified / "failures.csv", keep_default_na=False)
    assert set(rows.columns) == {"id", "index", "part", "group", "suspect", "row"}
    assert set(rows.query("suspect == 'yes'")["part"]) <= {"query"}


def test_an_empty_folder_is_no_obstacle_and_another_one_is(project, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert amends("identify", "--method", "grad_dot", "-q", "-o", tmp_path / "empty") == 0
    assert (tmp_path / "empty/causes.csv").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("mine")
    assert amends("repair", "-q", "-o", tmp_path / "mine") == 3
    assert "the folder holds something that is not a run" in capsys.readouterr().err
