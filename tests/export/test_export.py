"""The command, where an export goes, and what it refuses."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from amends import export
from amends.cli.export import KINDS
from tests.export.folders import contents
from tests.projects import amends


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("mlflow", "wandb", "lora")])
def test_the_run_stays_as_it_is_and_the_target_is_beside_it(kind, images, tmp_path, capsys):
    run = shutil.copytree(images / "whole", tmp_path / "whole")
    before = contents(run)
    assert amends("export", run, "--to", kind, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"to", "path", "n"}
    assert said["to"] == kind
    assert said["n"] > 0
    assert Path(said["path"]).parent == tmp_path
    assert Path(said["path"]).exists()
    assert contents(run) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["whole", Path(said["path"]).name])
    kept = contents(tmp_path)
    assert amends("export", run, "--to", kind) == 2  # a second time it is there already
    assert "the target exists" in capsys.readouterr().err
    assert contents(tmp_path) == kept


BAD = {
    "unknown kind": (("whole", "--to", "hugingface"), 2, "did you mean huggingface?"),
    "no kind": (("whole",), 2, "--to"),
    "no run": (("nowhere", "--to", "csv"), 2, "no such run"),
    "csv before a treatment": (("found", "--to", "csv"), 2, "nothing is removed yet"),
    "huggingface before a treatment": (("found", "--to", "huggingface"), 2, "nothing is removed yet"),
    "images before a treatment": (("found", "--to", "images"), 2, "nothing is removed yet"),
    "images of rows": (("whole", "--to", "images"), 2, "needs images, but train holds rows"),
    "fiftyone of rows": (("whole", "--to", "fiftyone"), 2, "needs images, but train holds rows"),
    "inside the run": (("whole", "--to", "csv", "-o", "{run}/clean.csv"), 2, "inside the run"),
    "the run itself": (("whole", "--to", "huggingface", "-o", "{run}"), 2, "inside the run"),
    "a store inside the run": (("whole", "--to", "mlflow", "-o", "{run}/mlruns"), 2, "inside the run"),
    "top of a csv": (("whole", "--to", "csv", "--top", "3"), 2, "--top goes with label-studio and fiftyone"),
    "top of nothing": (("whole", "--to", "label-studio", "--top", "0"), 2, "--top"),
    "lora of a network of one's own": (("whole", "--to", "lora"), 2, "is no Hugging Face model"),
    "rank of a csv": (("whole", "--to", "csv", "--rank", "3"), 2, "--rank goes with lora"),
    "online mlflow": (("whole", "--to", "mlflow", "--online"), 2, "--online goes with wandb"),
    "server of wandb": (("whole", "--to", "wandb", "--tracking-uri", "x"), 2, "--tracking-uri goes with mlflow"),
    "two stores": (("whole", "--to", "mlflow", "-o", "x", "--tracking-uri", "y"), 2, "give one of them"),
    "not a store": (("whole", "--to", "mlflow", "-o", "{run}/../file"), 2, "the MLflow store is a file"),
    "made in Python": (("python", "--to", "csv"), 2, "the run was made in Python"),
    "data that changed": (("moved", "--to", "csv", "--trust"), 3, "train is not what this run was made with"),
    "rows that are missing": (("torn", "--to", "csv"), 3, "do not name each example of train exactly once"),
    "no list of what was kept": (("bare", "--to", "csv"), 3, "kept.csv"),
    "nothing was removed": (("nothing", "--to", "csv"), 2, "nothing was removed"),
    "no table": (("untabled", "--to", "cleanlab"), 3, "causes.parquet"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_nothing_is_written(name, damaged, capsys, monkeypatch):
    monkeypatch.chdir(damaged)
    arguments, code, said = BAD[name]
    run = damaged / arguments[0]
    before = contents(damaged)
    assert amends("export", run, *[a.format(run=run) for a in arguments[1:]]) == code
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert said in line
    assert line.count("; ") >= 2
    assert contents(damaged) == before


LIBRARIES = {"huggingface": "datasets", "mlflow": "mlflow", "wandb": "wandb",
             "tensorboard": "torch.utils.tensorboard.writer"}  # fmt: skip


@pytest.mark.parametrize(("kind", "module"), LIBRARIES.items())
def test_a_library_that_is_missing_is_named_with_its_extra(kind, module, damaged, capsys, monkeypatch):
    monkeypatch.chdir(damaged)
    monkeypatch.setitem(sys.modules, module, None)
    assert amends("export", damaged / "whole", "--to", kind) == 2
    assert f"pip install 'amends[{kind}]'" in capsys.readouterr().err
    assert not (damaged / "mlruns").exists()


def test_what_cannot_be_finished_is_not_begun(damaged, capsys, monkeypatch):
    """A full disk in the middle of a file: exit code 5, and nothing half-written."""

    def full(table, path, **_):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("amends.export.tables.write_table", full)
    before = contents(damaged)
    assert amends("export", damaged / "whole", "--to", "csv") == 5
    assert "No space left on device" in capsys.readouterr().err
    assert contents(damaged) == before


def test_public_names_are_documented():
    assert all(getattr(export, name).__doc__ for name in export.__all__)
    assert {function for function, _ in KINDS.values()} < set(export.__all__)
