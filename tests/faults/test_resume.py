"""A run goes on only with what it was begun with: whatever else there is now is refused, and named."""

from __future__ import annotations

import json
import shutil
import tomllib

import numpy as np
import pandas as pd
import pytest
import tomli_w
import torch
from safetensors.torch import load_file, save_file

from amends.runs import manifest
from tests.faults.killing import contents
from tests.projects import amends, texts_project

LOSS = "import torch\n\n\ndef loss(outputs, targets):\n    return -torch.nn.functional.cross_entropy(outputs, targets"
HELPER = "SCALE = 1.0\n"


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A project with code of its own everywhere, groups by a column, and a search in it."""
    folder = tmp_path_factory.mktemp("begun")
    config = texts_project(folder)
    (folder / "helper.py").write_text(HELPER)
    (folder / "my_model.py").write_text("from helper import SCALE\n" + (folder / "my_model.py").read_text())
    (folder / "my_loss.py").write_text(LOSS + ', reduction="none")\n')
    text = config.read_text() + 'group_by = "note"\n\n[likelihood]\nfunction = "my_loss:loss"\n'
    config.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert amends("identify", "-o", "run", "-q") == 0
    return folder


@pytest.fixture
def here(begun, monkeypatch):
    """The project itself, put back afterwards: its code has been imported from there."""
    before = contents(begun)
    monkeypatch.chdir(begun)
    yield begun
    shutil.rmtree(begun / "run")
    for name, content in before.items():
        (begun / name).parent.mkdir(parents=True, exist_ok=True)
        (begun / name).write_bytes(content)


def table(name, change):
    def make(here):
        rows = pd.read_csv(here / name, dtype=str, keep_default_na=False)
        change(rows).to_csv(here / name, index=False)

    return make


def cell(column, value, row=3):
    def change(rows):
        rows.loc[row, column] = value
        return rows

    return change


def file(name, old, new):
    def make(here):
        text = (here / name).read_text()
        assert old in text
        (here / name).write_text(text.replace(old, new, 1))

    return make


def weights(here):
    state = load_file(here / "model.safetensors")
    save_file({k: v + 1e-6 for k, v in state.items()}, here / "model.safetensors")


def about(key, value):
    """As if another had made the run."""

    def make(here):
        path = here / "run/run.toml"
        said = tomllib.loads(path.read_text())
        said["run"][key] = value
        path.write_text(tomli_w.dumps(said))
        manifest.seal(here / "run")

    return make


def arrays(**changes):
    def make(here):
        path = here / "run/identified/scores.npz"
        with np.load(path) as kept:
            found = {name: kept[name] for name in kept.files}
        np.savez(path, **{name: changes[name](value) if name in changes else value for name, value in found.items()})
        manifest.seal(here / "run")

    return make


def nan(values):
    values = values.copy()
    values[7] = np.nan
    return values


CONFIG = "the run was begun with another config"
CHANGED = {
    "the weights": (weights, "the weights are not what this run was made with"),
    "a training text": (table("train.csv", cell("review", "tea, tea")), "train is not what"),
    "the order of train": (table("train.csv", lambda rows: rows.iloc[::-1]), "of train are not what"),
    "a training label": (table("train.csv", lambda r: r.assign(mood=r["mood"].replace({"glad": "sad", "sad": "glad"}))),
                         "the labels of train are not what"),
    "a column of train": (table("train.csv", cell("price", "9.99")), "the columns of train are not what"),
    "an id of train": (table("train.csv", cell("key", "new")), "the columns of train are not what"),
    "a failure's text": (table("test.csv", lambda r: r.assign(review=r["review"] + " door")),
                         "not what this run was made with"),
    "the groups": (table("test.csv", lambda r: r.assign(note=r["note"].iloc[::-1].tolist())), "the columns of"),
    "the code of the model": (file("my_model.py", "def build():", "def build(wide=10):"), "the code of model"),
    "a module it imports": (file("helper.py", "1.0", "2.0"), "the code of model"),
    "the transform": (file("my_model.py", ".lower()", ".casefold()"), "the code of model"),
    "the likelihood": (file("my_loss.py", "-torch", "-1.0 * torch"), "the code of model"),
    "the method": (file("amends.toml", "grad_dot", "loss"), f"repair.method is 'loss', but {CONFIG}"),
    "an option of the treatment": (file("amends.toml", "epochs = 20", "epochs = 21"), CONFIG),
    "how many": (file("amends.toml", "top = 45", "top = 46"), f"repair.top is 46, but {CONFIG}"),
    "the seed": (file("amends.toml", "top = 45", "top = 45\nseed = 5"), f"repair.seed is 5, but {CONFIG}"),
    "the share that judges": (file("amends.toml", "top = 45", "top = 45\nholdout = 0.6"), CONFIG),
    "the batch": (file("amends.toml", "top = 45", "top = 45\nbatch_size = 64"), CONFIG),
    "the likelihood's name": (file("amends.toml", "[likelihood]", '[likelihood]\nkind = "categorical"'), CONFIG),
    "amends itself": (about("amends", "0.0.9"), "but the run was begun with 0.0.9"),
    "torch": (about("torch", "1.0"), f"torch is {torch.__version__}, but the run was begun with 1.0"),
    "numpy": (about("numpy", "1.0"), "numpy is"),
    "Python": (about("python", "3.0"), "python is"),
    "the device": (about("device", "cuda:3"), "device is cpu, but the run was begun with cuda:3"),
    "the precision": (about("dtype", "float64"), "dtype is float32, but the run was begun with float64"),
    "what was searched with": (arrays(query=lambda q: q + 1), "the failures searched with are not those of this run"),
    "the number of scores": (arrays(scores=lambda s: s[:-1]), "239 scores are there for 240 examples"),
    "a score that is none": (arrays(scores=nan), "scores[7] is not a finite number"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_what_differs_is_refused_and_named(name, here, capsys):
    change, said = CHANGED[name]
    change(here)
    before = contents(here / "run")
    assert amends("repair", "-o", "run", "-q") == 3, name
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert contents(here / "run") == before
    if CONFIG not in said:
        assert amends("treat", "run", "-q") == 3
        assert said in capsys.readouterr().err


def test_with_nothing_changed_it_goes_on(here, capsys):
    """And a comment in the config, or another folder to start from, is no change."""
    file("amends.toml", "[model]", "# mine\n[model]")(here)
    assert amends("repair", "-o", "run", "-q", "--json") == 0
    assert json.loads(capsys.readouterr().out)["run"] == "run"
