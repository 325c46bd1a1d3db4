"""The command line as a person uses it: a config, a run folder, one stage after the other."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import load_file

from amends.cli.app import COMMANDS
from amends.config.read import Config
from amends.runs.disk import locked, write_folder
from amends.runs.run import Run
from amends.workflow import check as checking
from tests.projects import amends, digits_project, heeding

DONE = {
    "causes.csv", "causes.parquet", "curve.csv", "dataset", "failures.csv", "identified", "looks.json", "metrics.json",
    "repaired", "report.html", "run.toml",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    digits_project(folder)
    return folder


@pytest.fixture(autouse=True)
def _inside(project, monkeypatch):
    monkeypatch.chdir(project)


@pytest.fixture(scope="module")
def repaired(project):
    """The folder of a whole repair."""
    before = os.getcwd()
    os.chdir(project)
    try:
        assert amends("repair", "-o", "runs/whole", "-q", "--seed", 1) == 0
    finally:
        os.chdir(before)
    return project / "runs/whole"


@pytest.fixture
def identified(project, tmp_path):
    """A fresh copy of a search."""
    if not (project / "runs/found").exists():
        assert amends("identify", "-o", "runs/found", "-q", "--seed", 1) == 0
    return shutil.copytree(project / "runs/found", tmp_path / "found")


def test_help_is_quick_and_does_not_import_torch():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import sys; from amends.cli.app import run; run(['--help']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3


def test_help_of_every_command_needs_no_torch():
    code = f"""
import sys
from amends.cli.app import run
for command in {list(COMMANDS)}:
    assert run([command, "--help"]) == 0, command
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: amends") == len(COMMANDS)


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
    from torch import nn

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


def test_run_toml_is_enough_to_make_the_run_again(repaired, project, tmp_path):
    about = tomllib.loads((repaired / "run.toml").read_text())
    assert about["run"]["seed"] == 1
    assert about["config"]["repair"]["seed"] == 1
    assert {"amends", "torch", "python", "device"} <= set(about["run"])
    os.chdir(tmp_path)
    assert amends("repair", repaired / "run.toml", "-o", tmp_path / "again", "-q") == 0
    assert (tmp_path / "again/metrics.json").read_text() == (repaired / "metrics.json").read_text()
    first, again = (load_file(f / "repaired/model.safetensors") for f in (repaired, tmp_path / "again"))
    assert all(torch.equal(first[k], again[k]) for k in first)


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


def test_decisions_stay_and_only_what_was_approved_goes(identified):
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table["decision"] = ""
    table.loc[:24, "decision"] = "remove"
    table.loc[2, "decision"] = "keep"
    table["note"] = ["look again" if i == 5 else "" for i in range(len(table))]
    table.to_csv(identified / "causes.csv", index=False)
    assert amends("treat", identified, "--approved", "-q", "--no-learn") == 0
    after = pd.read_csv(identified / "causes.csv", keep_default_na=False)
    assert after["decision"].tolist()[:25] == ["remove", "remove", "keep", *["remove"] * 22]
    assert set(after["decision"][25:]) == {""}
    assert after["note"][5] == "look again"
    picked = set(table["index"][:25]) - {table["index"][2]}
    metrics = json.loads((identified / "metrics.json").read_text())
    assert metrics["removed"] in (0, 24)
    assert {r["removed"] for r in metrics["curve"]} == {0, 24}
    if metrics["removed"]:
        assert set(pd.read_csv(identified / "dataset/removed.csv")["index"]) == picked
    assert "24 examples picked by a person" in tomllib.loads((identified / "run.toml").read_text())["run"]["rule"]


def test_decisions_as_a_spreadsheet_saves_them(identified, capsys):
    """With semicolons and commas in numbers, and a capital."""
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table["decision"] = ["Remove " if i < 20 else "" for i in range(len(table))]
    table.to_csv(identified / "causes.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    for verb in (["runs", "show"], ["report"]):
        assert amends(*verb, identified) == 0
    capsys.readouterr()
    assert amends("treat", identified, "--approved", "-q", "--json") == 0
    assert {r["removed"] for r in json.loads(capsys.readouterr().out)["curve"] if r["by"] == "causes"} == {20}


def test_a_decision_nobody_knows_is_named_with_its_place(identified, capsys):
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table.loc[3, "decision"] = "remov"
    table.to_csv(identified / "causes.csv", index=False)
    assert amends("treat", identified, "--approved", "-q") == 2
    assert (
        f"decision is 'remov'; {identified}/causes.csv at index {table['index'][3]}; write" in capsys.readouterr().err
    )


def test_treat_by_count_by_share_and_by_ids(identified, tmp_path, capsys):
    (tmp_path / "ids.csv").write_text("index\n3\n4\n5\n")
    for args, count in ((["--top", 12], 12), (["--fraction", 0.05], 15), (["--ids", tmp_path / "ids.csv"], 3)):
        out = tmp_path / f"out{count}"
        assert amends("treat", identified, *args, "-o", out, "--json", "-q") == 0
        said = json.loads(capsys.readouterr().out)
        assert {r["removed"] for r in said["curve"] if r["by"] == "causes"} == {count}
        assert said["run"] == str(out)
    assert not (identified / "metrics.json").exists(), "with -o the search stays as it is"


def test_a_finished_run_is_never_overwritten(repaired, capsys):
    before = {p: p.read_bytes() for p in repaired.rglob("*") if p.is_file()}
    for args in (["repair", "-o", repaired], ["identify", "-o", repaired], ["treat", repaired, "--top", 3]):
        assert amends(*args, "-q") == 2
        assert capsys.readouterr().err.startswith("error: ")
    assert {p: p.read_bytes() for p in repaired.rglob("*") if p.is_file()} == before


def test_a_repair_that_was_stopped_goes_on_from_its_search(identified, repaired, project, capsys):
    assert amends("repair", "-o", identified, "--seed", 1) == 0
    assert "trying ewc" not in capsys.readouterr().err, "it does not search again"
    assert (identified / "metrics.json").read_text() == (repaired / "metrics.json").read_text()


def test_what_was_approved_goes_on_with_repair_too(identified):
    table = pd.read_csv(identified / "causes.csv", dtype={"decision": str})
    table["decision"] = ["remove" if i < 20 else "" for i in range(len(table))]
    table.to_csv(identified / "causes.csv", index=False)
    assert amends("repair", "-o", identified, "--seed", 1, "--approved", "-q") == 0
    after = pd.read_csv(identified / "causes.csv", keep_default_na=False)
    assert after["decision"].tolist() == table["decision"].tolist()
    rows = json.loads((identified / "metrics.json").read_text())["curve"]
    assert {r["removed"] for r in rows if r["by"] == "causes"} == {20}


def test_killed_half_way_it_goes_on(repaired, project, tmp_path):
    """SIGINT and SIGTERM between the halves: their exit codes, nothing half-written, and the same result after."""
    out = tmp_path / "killed"
    command = [sys.executable, "-c", "from amends.cli import main; main()", "repair", "-o", str(out), "--seed", "1"]
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True, "preexec_fn": heeding}
        with subprocess.Popen(command, **pipes) as process:
            for line in process.stderr:
                if line.startswith("control: nothing removed"):
                    process.send_signal(number)
                    break
            told = process.stderr.read()
            assert process.wait(60) == code, told
        assert "stopped: " in told
        assert Run.open(out).state == "identified"
        assert not [p for p in (*out.iterdir(), *tmp_path.iterdir()) if p.name.startswith(".")]
    assert amends("repair", "-o", out, "--seed", 1, "-q") == 0
    assert (out / "metrics.json").read_text() == (repaired / "metrics.json").read_text()


def test_another_recipe_does_not_go_on(identified, capsys):
    assert amends("repair", "-o", identified, "--seed", 2, "-q") == 3
    assert "another config" in capsys.readouterr().err


def test_changed_data_or_weights_do_not_go_on(project, identified, capsys):
    for name in ("train.npz", "model.safetensors"):
        kept = (project / name).read_bytes()
        try:
            if name == "train.npz":
                with np.load(project / name) as data:
                    np.savez(project / name, x=data["x"] + 1, y=data["y"])
            else:
                from safetensors.torch import save_file

                state = load_file(project / name)
                save_file({k: v + 0.1 for k, v in state.items()}, project / name)
            assert amends("treat", identified, "--top", 3, "-q") == 3
            assert "not what this run was made with" in capsys.readouterr().err
        finally:
            (project / name).write_bytes(kept)


def test_held_out_examples_that_were_learned_from_are_pointed_out(project, tmp_path, capsys):
    with np.load("train.npz") as learned, np.load("evaluation.npz") as held:
        both = {k: np.concatenate([held[k], learned[k][:20]]) for k in ("x", "y")}
    np.savez("both.npz", **both)
    Path("both.toml").write_text(Path("amends.toml").read_text().replace("evaluation.npz", "both.npz"))
    assert amends("check", "both.toml", "--json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert sum(int(note.split(" of the ")[0]) for note in notes) == 20
    assert all(note.endswith("are in train too, label and all") for note in notes)


def test_what_a_repair_would_refuse_is_found_by_check(capsys):
    for line, said in {
        "holdout = 3": "holdout is 3", "fraction = -1": "the share is -1.0", "fraction = 1.0": "all of train",
        "floor = 7": "floor is 7", "top = 100000": "k is 100000", 'group = "a→b"': "no failure is in the group 'a→b'",
    }.items():  # fmt: skip
        config = Path("amends.toml").read_text()
        Path("odd.toml").write_text(f"{config}\n{'' if '[repair]' in config else '[repair]'}\n{line}\n")
        assert amends("check", "odd.toml") == 2, line
        assert said in capsys.readouterr().err


def test_an_empty_folder_is_no_obstacle_and_another_one_is(project, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert amends("identify", "--method", "grad_dot", "-q", "-o", tmp_path / "empty") == 0
    assert (tmp_path / "empty/causes.csv").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("mine")
    assert amends("repair", "-q", "-o", tmp_path / "mine") == 3
    assert "the folder holds something that is not a run" in capsys.readouterr().err


def test_where_nothing_can_be_written_is_known_before_anything_is_computed(project, monkeypatch, capsys):
    monkeypatch.setattr("amends.algorithm.problem.Problem.search", None)  # would be called
    Path("a file").write_text("")
    assert amends("identify", "-q", "-o", "a file/run") == 5
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.endswith("; choose another folder\n")


def test_one_damaged_run_does_not_hide_the_others(repaired, tmp_path, capsys):
    for name in ("fine", "torn"):
        shutil.copytree(repaired, tmp_path / name)
    (tmp_path / "torn/metrics.json").write_text("{")
    assert amends("runs", "ls", tmp_path, "--json") == 0
    told = capsys.readouterr()
    assert [row["run"] for row in json.loads(told.out)] == [str(tmp_path / "fine")]
    assert "is damaged" in told.err


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


def test_a_search_says_which_failures_look_wrong_themselves(identified):
    rows = pd.read_csv(identified / "failures.csv", keep_default_na=False)
    assert set(rows.columns) == {"id", "index", "part", "group", "suspect", "row"}
    assert set(rows.query("suspect == 'yes'")["part"]) <= {"query"}


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
    assert "; evaluation[" in capsys.readouterr().err


def test_the_curve_of_a_large_model_has_one_control_at_random(identified, monkeypatch, capsys):
    for room in ("choose", "options"):
        monkeypatch.setattr(f"amends.algorithm.{room}.LARGE", 1)
    assert amends("curve", identified) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1].isdigit()]
    assert len(rows) > 3
    assert (
        sum("-" in row for row in rows) == len(rows) - 2
    )  # beside those that nothing, and as many at random, stand for


def test_the_curve_is_kept_and_shown_again(identified, capsys):
    assert amends("curve", identified, "--json", "-q") == 0
    first = json.loads(capsys.readouterr().out)
    kept = (identified / "curve.csv").read_bytes()
    assert amends("curve", identified, "--json", "-q") == 0
    again = json.loads(capsys.readouterr().out)
    assert [r["removed"] for r in again["curve"]] == [r["removed"] for r in first["curve"]]
    assert (identified / "curve.csv").read_bytes() == kept
    assert amends("curve", identified) == 0
    assert "How many to remove" in capsys.readouterr().out


def test_relabelled_causes_are_called_so(identified, tmp_path):
    assert amends("treat", identified, "--top", 40, "--relabel", "-q", "-o", tmp_path / "again") == 0
    told = json.loads((tmp_path / "again/metrics.json").read_text())
    assert told["removed"] == 40
    table = pd.read_csv(tmp_path / "again/causes.csv", keep_default_na=False)
    assert (table["decision"] == "relabel").sum() == 40
    moved = pd.read_csv(tmp_path / "again/dataset/relabelled.csv")
    assert sorted(moved["index"]) == sorted(table.loc[table["decision"] == "relabel", "index"])
    assert (moved["label"] != moved["given"]).mean() > 0.5
    assert len(pd.read_csv(tmp_path / "again/dataset/removed.csv")) == 0


def test_requirements_decide_the_exit_code(identified, tmp_path, capsys):
    met, missed = "holdout>=0.01,remaining>=0.5", "holdout>=0.999"
    assert amends("treat", identified, "--top", 45, "-o", tmp_path / "a", "--require", met, "-q") == 0
    assert amends("treat", identified, "--top", 45, "-o", tmp_path / "b", "--require", missed, "-q") == 1
    assert "not met: holdout is" in capsys.readouterr().err
    assert (tmp_path / "b/metrics.json").exists(), "done all the same"


def test_the_guess_of_check_knows_what_is_left_to_choose(tmp_path):
    def fits(large=False, **options):
        return checking._fits(Config({"repair": options}, tmp_path, "amends.toml"), large)

    for large in (False, True):
        curve, given = fits(large), fits(large, top=30)
        assert all(a < b for a, b in zip(given, curve, strict=True))
        assert fits(large, fraction=0.1) == given
        assert fits(large, learn=False) == (curve[0], 0)
        assert fits(large, learn=True) == curve
    assert all(a < b for a, b in zip(fits(True), fits(), strict=True))


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


def test_report_is_written_again_from_the_folder_alone(repaired, project, tmp_path, capsys):
    copy = shutil.copytree(repaired, tmp_path / "copy")
    original = (copy / "report.html").read_text()
    (copy / "report.html").unlink()
    assert amends("report", copy) == 0
    assert (copy / "report.html").read_text() == original
    assert capsys.readouterr().out.strip() == str(copy / "report.html")


def test_runs_are_listed_shown_and_compared(repaired, identified, tmp_path, capsys):
    shutil.copytree(repaired, tmp_path / "whole")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/run.toml").write_text("no = [")
    assert amends("runs", "ls", tmp_path, "--json") == 0
    told = capsys.readouterr()
    assert {r["state"] for r in json.loads(told.out)} == {"done", "identified"}
    assert "is damaged" in told.err
    assert amends("runs", "ls", tmp_path) == 0
    assert "repaired" in capsys.readouterr().out
    for folder in (repaired, identified):
        assert amends("runs", "show", folder) == 0
        assert "300 examples" in capsys.readouterr().out
        assert amends("runs", "show", folder, "--json") == 0
        assert json.loads(capsys.readouterr().out)["run"]["seed"] == 1
    assert amends("treat", identified, "--top", 30, "--no-learn", "-q") == 0
    capsys.readouterr()
    assert amends("runs", "diff", repaired, identified, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"]["config.repair.top"] == [None, 30]
    assert found["causes"]["both"] <= 30
    assert amends("runs", "diff", repaired, identified) == 0
    assert "config.repair.top" in capsys.readouterr().out


def test_a_run_is_removed_and_nothing_else_with_it(identified, capsys, monkeypatch):
    (identified / "mine.txt").write_text("notes")
    assert amends("runs", "rm", identified, "--yes") == 2
    assert "mine.txt, which amends did not write" in capsys.readouterr().err
    (identified / "mine.txt").unlink()
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert amends("runs", "rm", identified) == 0
    assert identified.exists()
    assert amends("runs", "rm", identified, "--yes") == 0
    assert not identified.exists()


def test_one_writer_at_a_time(identified, capsys):
    code = f"""
import sys
from pathlib import Path
from amends.runs.run import locked
with locked(Path({str(identified)!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    try:
        assert amends("report", identified) == 4
        assert "another amends is writing this run" in capsys.readouterr().err
    finally:
        holder.communicate("")
    assert amends("report", identified) == 0
    assert not list(identified.parent.glob(".*"))


def test_an_interrupted_writer_leaves_nothing(tmp_path):
    def fill(made):
        (made / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "run", fill)
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_exit_code_five(identified, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("amends.runs.disk.tempfile.mkdtemp", full)
    assert amends("report", identified) == 5
    assert "No space left on device" in capsys.readouterr().err


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
    assert said["query"]["n"] + said["holdout"]["n"] == 11
    assert "note: the model gets 1 of the 11 failures right already" in told.err
    assert set(said["keep"]) == {"keep['pool']"}


def test_every_key_of_repair_is_an_option_or_a_table():
    from amends.cli.repair import repair
    from amends.config.keys import REPAIR

    options = {p.name for p in repair.params}
    assert {k for k, rule in REPAIR.items() if rule.kinds != (dict,)} <= options


def test_a_config_in_another_folder(project, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(project.parent)
    assert amends("check", f"{project.name}/amends.toml", "-q", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sets"]["train"]["n"] == 300


def test_run_is_read_without_torch(repaired):
    code = f"""
import sys
from amends.cli.app import run
assert run(["runs", "show", {str(repaired)!r}]) == 0
assert run(["runs", "ls", {str(repaired.parent)!r}]) == 0
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_run_made_in_python_can_be_read_and_not_gone_on_with(tmp_path, capsys):
    import amends as library
    from tests.worlds import planted_digits

    model, train, failures, remaining, _ = planted_digits()
    result = library.repair(
        model, train, failures, remaining, treat_with=library.methods.fine_tune(epochs=3), remove=40
    )
    result.save(tmp_path / "run")
    assert {p.name for p in (tmp_path / "run").iterdir()} == DONE
    assert isinstance(Run.open(tmp_path / "run").metrics, dict)
    assert amends("curve", tmp_path / "run") == 0
    assert amends("treat", tmp_path / "run", "-o", tmp_path / "more") == 2
    assert "made in Python" in capsys.readouterr().err


def test_config_reads_as_it_was_given(repaired):
    assert isinstance(Run.open(repaired).config, Config)
