"""amends judge: a model on data of one's own, before and after a patch, as a gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import amends as library
from tests.pages import DOCS, blocks
from tests.projects import amends, texts_project


@pytest.fixture(scope="module")
def fix(repaired, tmp_path_factory):
    path = tmp_path_factory.mktemp("fix") / "fix.safetensors"
    run = shutil.copytree(repaired, path.parent / "run")
    with pytest.MonkeyPatch.context() as inside:
        inside.chdir(repaired.parent.parent)
        assert amends("patch", run, "-o", path, "--exact") == 0
    return path


def told(capsys, *order) -> dict:
    capsys.readouterr()
    assert amends("judge", *order, "--json") == 0
    return json.loads(capsys.readouterr().out)


def by_hand(model) -> np.ndarray:
    pool = np.load("evaluation.npz")
    with torch.no_grad():
        return (model(torch.tensor(pool["x"])).argmax(1) == torch.tensor(pool["y"])).numpy()


def test_before_and_after_a_patch(fix, capsys):
    """The same counts as torch by hand."""
    found = told(capsys, "model.safetensors", "evaluation.npz", "--patch", fix)
    model = library.models.load(function="my_model:build", weights="model.safetensors").model
    was, now = by_hand(model), by_hand(library.apply(model, fix))
    assert (found["before"], found["accuracy"]) == (was.mean(), now.mean())
    assert (found["fixed"], found["broken"]) == ((~was & now).sum(), (was & ~now).sum())
    assert found["fixed_at"] == np.flatnonzero(~was & now).tolist()
    low, high = found["interval_change"]
    assert low <= found["change"] <= high
    assert sum(row["n"] for row in found["classes"].values()) == found["n"] == len(was)


def test_copies_are_one_witness(fix, tmp_path, capsys):
    """Every example four times: the same accuracies, and as sure as with each once."""
    pool, found = dict(np.load("evaluation.npz")), []
    for times in (1, 4):
        at = np.tile(np.arange(len(pool["y"])), times)
        np.savez(tmp_path / f"{times}.npz", **{k: v[at] for k, v in pool.items() if k != "id"})
        found.append(told(capsys, "model.safetensors", tmp_path / f"{times}.npz", "--patch", fix))
    once, often = found
    assert often["n"] == 4 * once["n"]
    assert often["witnesses"] == once["witnesses"]
    assert often["fixed"] == 4 * once["fixed"]
    for key in ("accuracy", "interval", "interval_change", "p_value"):
        assert often[key] == pytest.approx(once[key], rel=1e-9), key
    assert amends("judge", "model.safetensors", tmp_path / "4.npz") == 0
    assert f"of which {often['n'] - often['witnesses']:,} are copies and count once" in capsys.readouterr().out


def test_weights_that_have_the_patch_on_are_judged_the_same(fix, repaired, tmp_path, capsys):
    assert amends("apply", fix, "model.safetensors", "-o", tmp_path / "new.safetensors") == 0
    a = told(capsys, "model.safetensors", "evaluation.npz", "--patch", fix)
    b = told(capsys, tmp_path / "new.safetensors", "evaluation.npz", "--patch", fix)
    c = told(capsys, repaired, "evaluation.npz")
    assert a == b == c


def test_without_a_patch(capsys, fix):
    alone = told(capsys, "model.safetensors", "evaluation.npz")
    assert alone == told(capsys, "amends.toml", "evaluation.npz")
    assert alone["accuracy"] == told(capsys, "model.safetensors", "evaluation.npz", "--patch", fix)["before"]
    assert "before" not in alone
    assert alone["interval"][0] < alone["accuracy"] < alone["interval"][1]


@pytest.mark.parametrize(("require", "code"), [
    ("accuracy>=0.1,change>=0,fixed>=1", 0), ("accuracy>=0.999", 1), ("broken<=-1", 1), ("lowest>=.999", 1),
])  # fmt: skip
def test_a_gate(require, code, fix, capsys):
    order = ("judge", "model.safetensors", "evaluation.npz", "--patch", fix, "--require", require)
    assert amends(*order) == code
    said = capsys.readouterr()
    assert ("not met: " in said.err) is (code == 1)
    assert "accuracy" in said.out


def test_the_workflow_of_the_docs(fix, tmp_path, monkeypatch):
    """As GitHub runs it, on data of another name: without a patch there is nothing to judge; a second patch is judged
    on the weights with the first, and one that undoes half of its answers stops it there."""
    import yaml

    from amends.patches.names import tensors
    from amends.patches.patch import between

    text = next(b.content for b in blocks(DOCS / "how-to/ci.md") if b.language == "yaml")
    script = yaml.safe_load(text)["jobs"]["judge"]["steps"][-1]["run"].replace("data/gate.csv", "evaluation.npz")
    for name in ("patches", "bin", "temp"):
        (tmp_path / name).mkdir()
    for name in ("my_model.py", "amends.toml", "model.safetensors", "train.npz", "evaluation.npz"):
        shutil.copy(name, tmp_path)
    (tmp_path / "bin/amends").write_text(f'#!/bin/sh\nexec {sys.executable} -m amends "$@"\n')
    (tmp_path / "bin/amends").chmod(0o755)
    around = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path / "temp")}

    def run() -> subprocess.CompletedProcess:
        return subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=around, capture_output=True, text=True)

    assert run().returncode == 0
    model = library.models.load(function="my_model:build", weights="model.safetensors").model
    first = tensors(library.apply(model, fix))
    shutil.copy(fix, tmp_path / "patches/01-march.safetensors")
    undone = {**first, "2.bias": first["2.bias"] + torch.eye(10)[0] * 50}
    between(first, undone).save(tmp_path / "patches/02-april.safetensors")
    done = run()
    assert done.returncode == 1, done.stderr
    assert "not met: change is -" in done.stderr
    assert [p.name for p in (tmp_path / "temp").iterdir()] == ["01-march.safetensors"]


@pytest.mark.parametrize(
    ("order", "wants"),
    [
        (("none.safetensors", "evaluation.npz"), "no such file; model none.safetensors"),
        (("model.safetensors", "none.npz"), "no such file; data none.npz"),
        (("model.safetensors", "evaluation.npz", "--config", "none.toml"), "there is no config; none.toml; give one"),
        (("model.safetensors", "evaluation.npz", "--patch", "model.safetensors"), "this is no patch"),
        (("model.safetensors", "evaluation.npz", "--require", "fixed>=1"), "fixed is known only with a patch"),
        (("model.safetensors", "evaluation.npz", "--require", "acuracy>=1"), "did you mean accuracy"),
        (("model.safetensors", "evaluation.npz", "--require", "accuracy=1"), "cannot read 'accuracy=1'"),
    ],
)
def test_bad_input_is_one_line(order, wants, capsys):
    assert amends("judge", *order) == 2
    line = capsys.readouterr().err.strip()
    assert "\n" not in line
    assert wants in line


def test_a_patch_for_another_model_is_refused(fix, tmp_path, capsys):
    from safetensors.torch import load_file, save_file

    state = load_file("model.safetensors")
    save_file({**state, "2.bias": state["2.bias"] + 1}, tmp_path / "other.safetensors")
    assert amends("judge", tmp_path / "other.safetensors", "evaluation.npz", "--patch", fix) == 2
    assert "the patch is for other weights: 2.bias differs" in capsys.readouterr().err


def test_where_train_is_not_at_hand_the_patch_knows_the_classes(tmp_path, monkeypatch, capsys):
    """A table without one of the classes: numbered by itself it would be judged wrong."""
    import pandas as pd

    texts_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert amends("repair", "-o", "runs/a", "-q") == 0
    assert amends("patch", "runs/a", "-o", "fix.safetensors", "--exact") == 0
    with_train = told(capsys, "model.safetensors", "test.csv", "--patch", "fix.safetensors")
    frame = pd.read_csv("test.csv", dtype=str, keep_default_na=False)
    frame[frame["mood"] == "sad"].to_csv("sad.csv", index=False)
    shutil.move("train.csv", "away.csv")
    assert told(capsys, "model.safetensors", "test.csv", "--patch", "fix.safetensors") == with_train
    sad = told(capsys, "model.safetensors", "sad.csv", "--patch", "fix.safetensors")
    assert sad["accuracy"] == with_train["classes"]["sad"]["after"]
