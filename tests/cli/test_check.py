"""`amends check`: everything loaded, one batch tried, nothing written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from tests.projects import amends


def test_check_says_what_there_is_and_writes_nothing(project, capsys):
    before = sorted(project.rglob("*"))
    assert amends("check", "--json", "-q") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sets"]["train"] == {"n": 300, "inputs": "[64] float32", "targets": "[] int64"}
    assert said["parameters"] == said["trainable"] == 2410
    assert sum(said["groups"].values()) == said["sets"]["failures"]["n"]
    assert said["batch"]["backward_s"] > 0
    assert amends("check") == 0
    assert "Nothing was written." in capsys.readouterr().out
    assert sorted(project.rglob("*")) == before


def test_held_out_examples_that_were_learned_from_are_pointed_out(project, tmp_path, capsys):
    with np.load("train.npz") as learned, np.load("evaluation.npz") as held:
        both = {k: np.concatenate([held[k], learned[k][:20]]) for k in ("x", "y")}
    np.savez("both.npz", **both)
    Path("both.toml").write_text(Path("amends.toml").read_text().replace("evaluation.npz", "both.npz"))
    assert amends("check", "both.toml", "--json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    told = [note for note in notes if "label and all" in note]
    found = (re.search(r"(\d+) (?:is|are) (?:in train|a training example|training examples)", note) for note in told)
    assert sum(int(m[1]) for m in found) == 20
    assert any(note.endswith("are in train too, label and all") for note in told)


def test_what_a_repair_would_refuse_is_found_by_check(capsys):
    for line, said in {
        "holdout = 3": "holdout is 3", "fraction = -1": "remove is -1.0", "fraction = 1.0": "all of train",
        "floor = 7": "floor is 7", "top = 100000": "remove is 100000",
        'group = "a→b"': "no failure is in the group 'a→b'",
    }.items():  # fmt: skip
        config = Path("amends.toml").read_text()
        Path("odd.toml").write_text(f"{config}\n{'' if '[repair]' in config else '[repair]'}\n{line}\n")
        assert amends("check", "odd.toml") == 2, line
        assert said in capsys.readouterr().err


def test_right_examples_are_taken_from_the_evaluation_where_failures_have_a_file(project, tmp_path, capsys):
    with np.load(project / "evaluation.npz") as held:
        np.savez(tmp_path / "failures.npz", x=held["x"][:90], y=held["y"][:90])
    config = (project / "amends.toml").read_text().replace('path = "', f'path = "{project}/')
    config = config.replace('weights = "', f'weights = "{project}/')
    (tmp_path / "my_model.py").write_text((project / "my_model.py").read_text())
    (tmp_path / "amends.toml").write_text(config + '\n[failures]\npath = "failures.npz"\n')
    assert amends("check", tmp_path / "amends.toml", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sets"]["failures"]["n"] == 90
    assert said["sets"]["remaining"]["n"] == 423
    assert said["notes"] == ["the model gets 13 of the 90 failures right already"]


def test_a_bad_label_is_looked_for_in_the_set_it_is_in(project, tmp_path, capsys):
    with np.load(project / "evaluation.npz") as held:
        np.savez(tmp_path / "evaluation.npz", x=held["x"], y=held["y"] + 5)
    config = (project / "amends.toml").read_text().replace("evaluation.npz", f"{tmp_path}/evaluation.npz")
    (project / "bad.toml").write_text(config)
    assert amends("check", "bad.toml") == 2
    assert "evaluation[" in capsys.readouterr().err


def test_a_label_that_is_no_class_is_named_as_it_was_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = ["a,b,label", *("1.0,2.0,0" for _ in range(7)), "1.0,2.0,cat", "2.0,1.0,1"]
    Path("rows.csv").write_text("\n".join(rows))
    Path("two_outputs.py").write_text("from torch import nn\n\n\ndef net():\n    return nn.Linear(2, 2)\n")
    Path("amends.toml").write_text(
        '[model]\nfunction = "two_outputs:net"\n[data]\nlabel = "label"\nfeatures = ["a", "b"]\n[train]\n'
        'path = "rows.csv"\n[failures]\npath = "rows.csv"\n'
    )
    assert amends("check") == 2
    assert "[7] has the label 'cat', one of 3 in the data (0, 1, cat), but the model" in capsys.readouterr().err


def test_a_config_in_another_folder(project, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(project.parent)
    assert amends("check", f"{project.name}/amends.toml", "-q", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sets"]["train"]["n"] == 300


def test_check_lists_the_groups_that_a_repair_would_have(project, capsys):
    assert amends("check", "--json", "-q", "--group-by", "clusters") == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert groups
    assert not any("→" in name for name in groups)
