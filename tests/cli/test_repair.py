"""`amends repair`: one config, one command, one folder."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import torch
from safetensors.torch import load_file
from torch import nn

from amends.cli.repair import repair
from amends.config.keys import REPAIR
from tests.projects import DONE, amends


def test_a_whole_repair_writes_everything(repaired):
    assert {p.name for p in repaired.iterdir()} == DONE
    metrics = json.loads((repaired / "metrics.json").read_text())
    assert metrics["verdict"] != "not repaired"
    causes = pd.read_csv(repaired / "causes.csv")
    assert len(causes) == metrics["removed"] > 0
    assert (causes["decision"] == "remove").all()
    table = pyarrow.parquet.read_table(repaired / "causes.parquet")
    assert table.schema.metadata[b"amends.score"] == b"higher = more harmful"
    assert table.column("index").to_pylist() == causes["index"].tolist()
    removed, kept = (pd.read_csv(repaired / "dataset" / f"{n}.csv") for n in ("removed", "kept"))
    assert sorted([*removed["index"], *kept["index"]]) == list(range(300))
    assert removed["index"].tolist() == causes["index"].tolist()
    assert "not a privacy guarantee" in (repaired / "repaired/README.md").read_text()
    assert all(p.stat().st_mode & 0o044 == 0o044 for p in repaired.rglob("*") if p.is_file())


def test_the_repaired_weights_do_what_the_metrics_say(repaired, project):
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    net.load_state_dict(load_file(repaired / "repaired/model.safetensors"))
    pool = np.load(project / "evaluation.npz")
    with torch.no_grad():
        right = (net(torch.tensor(pool["x"])).argmax(1).numpy() == pool["y"]).mean()
    original = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    original.load_state_dict(load_file(project / "model.safetensors"))
    with torch.no_grad():
        before = (original(torch.tensor(pool["x"])).argmax(1).numpy() == pool["y"]).mean()
    assert right > before


def test_run_toml_is_enough_to_make_the_run_again(repaired, tmp_path, monkeypatch):
    about = tomllib.loads((repaired / "run.toml").read_text())
    assert about["run"]["seed"] == 2
    assert about["config"]["repair"]["seed"] == 2
    assert {"amends", "torch", "python", "device"} <= set(about["run"])
    monkeypatch.chdir(tmp_path)
    assert amends("repair", repaired / "run.toml", "-o", tmp_path / "again", "-q") == 0
    assert (tmp_path / "again/metrics.json").read_text() == (repaired / "metrics.json").read_text()
    first, again = (load_file(f / "repaired/model.safetensors") for f in (repaired, tmp_path / "again"))
    assert all(torch.equal(first[k], again[k]) for k in first)


def test_failures_are_listed_with_the_row_they_stand_in(repaired, project):
    rows = pd.read_csv(repaired / "failures.csv", keep_default_na=False)
    metrics = json.loads((repaired / "metrics.json").read_text())
    with np.load(project / "evaluation.npz") as held:
        assert rows["given"].tolist() == held["y"][rows["row"]].tolist()
    assert (rows["given"] != rows["predicted"]).all()
    parts = rows["part"].value_counts()
    assert (parts["query"], parts["holdout"]) == (metrics["query"]["n"], metrics["holdout"]["n"])
    fixed = rows.query("part == 'holdout' and predicted_after == given")["index"].tolist()
    assert fixed == sorted(metrics["fixed_at"])
    assert rows.query("suspect == 'yes'")["index"].tolist() == metrics["suspects"]


def test_what_was_approved_goes_on_with_repair_too(identified):
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table["decision"] = ["remove" if i < 20 else "" for i in range(len(table))]
    table.to_csv(identified / "causes.csv", index=False)
    assert amends("repair", "-o", identified, "--seed", 2, "--approved", "-q") == 0
    after = pd.read_csv(identified / "causes.csv", keep_default_na=False)
    assert after["decision"].tolist() == table["decision"].tolist()
    rows = json.loads((identified / "metrics.json").read_text())["curve"]
    assert {r["removed"] for r in rows if r["by"] == "causes"} == {20}


def test_one_group_alone(project, tmp_path, capsys):
    assert amends("repair", "--group", "9→4", "--top", 20, "-o", tmp_path / "one", "--json", "-q") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["rounds"][0]["groups"] == ["9→4"]
    assert (
        amends("repair", "--group", "9→4", "--group", "1→7", "--top", 10, "-o", tmp_path / "two", "--json", "-q") == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert [r["groups"] for r in said["rounds"]] == [["9→4"], ["1→7"]]


def test_keep_sets_and_failures_by_index(project, tmp_path, capsys):
    text = (project / "amends.toml").read_text()
    made = text.replace("[repair]", "[failures]\nindices = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 450]\n\n"
                        '[keep.pool]\npath = "evaluation.npz"\n\n[repair]')  # fmt: skip
    config = project / "other.toml"
    config.write_text(made)
    assert amends("repair", config, "--top", 20, "-o", tmp_path / "kept", "--json", "-q") == 0
    told = capsys.readouterr()
    said = json.loads(told.out)
    assert said["query"]["n"] + said["holdout"]["n"] == 11 - said["already_right"] == 10
    assert "note: the model gets 1 of the 11 failures right already" in told.err
    assert set(said["keep"]) == {"keep['pool']"}


def test_every_key_of_repair_is_an_option_or_a_table():
    options = {p.name for p in repair.params}
    assert {k for k, rule in REPAIR.items() if rule.kinds != (dict,)} <= options


def test_where_nothing_can_be_written_is_known_before_anything_is_computed(project, monkeypatch, capsys):
    monkeypatch.setattr("amends.algorithm.problem.Problem.search", None)  # would be called
    Path("a file").write_text("")
    assert amends("identify", "-q", "-o", "a file/run") == 5
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.endswith("; choose another folder\n")
