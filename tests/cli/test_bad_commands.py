"""Bad input on the command line: one line that says what, where and what to do; its exit code; nothing written."""

from __future__ import annotations

import gzip
import pickle
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.projects import CONFIG, amends


def text(content):
    return lambda folder: (folder / "amends.toml").write_text(content)


def more(lines):
    return lambda folder: (folder / "amends.toml").write_text(CONFIG + lines)


def line(old, new):
    def damage(folder):
        assert old in CONFIG, old
        (folder / "amends.toml").write_text(CONFIG.replace(old, new, 1))

    return damage


def arrays(name, **new):
    """A set with some of its arrays replaced, or computed from what was there."""

    def damage(folder):
        with np.load(folder / name) as data:
            kept = {k: data[k] for k in data.files}
        for key, change in new.items():
            kept[key] = change(kept[key])
        np.savez(folder / name, **{k: v for k, v in kept.items() if v is not None})

    return damage


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def weights(change):
    def damage(folder):
        save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")

    return damage


def module(source):
    return write("my_model.py", source)


def whole_module(folder):
    torch.save(torch.nn.Linear(64, 10), folder / "model.pt")
    line('"model.safetensors"', '"model.pt"')(folder)


class Payload:
    def __reduce__(self):
        return (open, ("harm.txt", "w"))


def malicious(folder):
    (folder / "model.pt").write_bytes(pickle.dumps({"w": Payload()}))
    line('"model.safetensors"', '"model.pt"')(folder)


def also(*steps):
    def damage(folder):
        for step in steps:
            step(folder)

    return damage


def table(content):
    """train from a CSV of this content."""
    return also(write("train.csv", content), line('"train.npz"', '"train.csv"'))


def nothing(folder):
    pass


def nan(x):
    x = x.copy()
    x[7] = np.nan
    return x


REPAIR = ["repair", "-q"]
# name: (what is wrong, the command, exit code, a part of the line)
CASES = {
    "no config": (lambda f: (f / "amends.toml").unlink(), REPAIR, 2, "no such file; amends.toml; write one with"),
    "a folder for a config": (nothing, ["check", "."], 2, "this is a folder"),
    "not TOML": (text("[model\n"), REPAIR, 2, "not valid TOML"),
    "not text": (write("amends.toml", b"\xff\xfe\x00"), REPAIR, 2, "cannot be read"),
    "an unknown table": (more("\n[modle]\n"), REPAIR, 2, "unknown table [modle]; amends.toml; did you mean model?"),
    "an unknown key": (line("weights =", "wieghts ="), REPAIR, 2, "unknown key wieghts; amends.toml [model]; did you"),
    "a key of another kind": (more("seed = 'three'\n"), REPAIR, 2, "seed is 'three', expected a whole number"),
    "true for a number": (more("top = true\n"), REPAIR, 2, "top is True, expected a whole number"),
    "an unknown method": (more("method = 'ewk'\n"), REPAIR, 2, "did you mean ewc?"),
    "an unknown method option": (more("method_options = { foo = 1 }\n"), REPAIR, 2, "default has no option foo"),
    "an unknown treatment option": (line("epochs = 4", "epoch = 4"), REPAIR, 2, "no option epoch; did you mean epochs"),
    "a treatment option out of range": (line("epochs = 4", "epochs = -1"), REPAIR, 2, "epochs is -1"),
    "top and fraction": (more("top = 3\nfraction = 0.1\n"), REPAIR, 2, "both top and fraction"),
    "both as options": (nothing, [*REPAIR, "--top", "3", "--fraction", "0.1"], 2, "--top and --fraction"),
    "more than there are": (nothing, [*REPAIR, "--top", "301"], 2, "but train has 300 examples; give fewer"),
    "a negative count": (nothing, [*REPAIR, "--top", "-1"], 2, "remove is -1"),
    "a share above one": (nothing, [*REPAIR, "--fraction", "1.5"], 2, "the share is 1.5"),
    "a negative seed": (nothing, [*REPAIR, "--seed", "-1"], 2, "seed is -1"),
    "a holdout of one": (nothing, [*REPAIR, "--holdout", "1"], 2, "holdout is 1"),
    "a batch of none": (nothing, [*REPAIR, "--batch-size", "0"], 2, "batch_size is 0"),
    "a device that is not there": (nothing, [*REPAIR, "--device", "cuda:9"], 2, "device cuda:9"),
    "a device that is none": (nothing, [*REPAIR, "--device", "abacus"], 2, "abacus"),
    "a group that is not there": (nothing, [*REPAIR, "--group", "5→5"], 2, "no failure is in the group '5→5'"),
    "groups by a column that is not there": (nothing, [*REPAIR, "--group-by", "shop"], 2, "no column shop"),
    "a requirement of another form": (nothing, [*REPAIR, "--require", "holdout>0.5"], 2, "cannot read 'holdout>0.5'"),
    "a requirement of nothing": (nothing, [*REPAIR, "--require", "accuracy>=0.5"], 2, "accuracy is not measured"),
    "an unknown option": (nothing, [*REPAIR, "--tpo", "3"], 2, "--tpo"),
    "an option without its value": (nothing, [*REPAIR, "--top"], 2, "--top"),
    "an unknown command": (nothing, ["repare"], 2, "did you mean repair?"),
    "no model": (line('function = "my_model:build"', ""), REPAIR, 2, "no model; amends.toml [model]"),
    "two models": (line("[train]", 'huggingface = "x"\n[train]'), REPAIR, 2, "two models"),
    "a module that is not there": (line("my_model:", "your_model:"), REPAIR, 2, "your_model"),
    "a function that is not there": (line(":build", ":biuld"), REPAIR, 2, "has no biuld"),
    "no colon": (line("my_model:build", "my_model"), REPAIR, 2, "give package.module:function"),
    "a module that does not import": (module("import nowhere"), REPAIR, 2, "nowhere"),
    "a function that raises": (module("def build():\n    raise RuntimeError('no GPU')"), REPAIR, 2, "no GPU"),
    "a function that returns no module": (module("def build():\n    return 3"), REPAIR, 2, "returns an int"),
    "options it does not take": (line("weights", "options = { depth = 3 }\nweights"), REPAIR, 2, "depth"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), REPAIR, 2, "model.safetensors"),
    "damaged weights": (write("model.safetensors", b"\x00" * 64), REPAIR, 2, "model.safetensors"),
    "weights of another model": (weights(lambda s: {k: v[:5] for k, v in s.items()}), REPAIR, 2, "0.bias has shape"),
    "weights with one missing": (weights(lambda s: {k: s[k] for k in list(s)[1:]}), REPAIR, 2, "0.bias"),
    "weights that are NaN": (weights(lambda s: {k: v * float("nan") for k, v in s.items()}), REPAIR, 2, "NaN"),
    "a pickled module": (whole_module, REPAIR, 2, "model.pt"),
    "a pickle that would run": (malicious, REPAIR, 2, "model.pt"),
    "no train": (line('path = "train.npz"', ""), REPAIR, 2, "no path; amends.toml [train]"),
    "train that is not there": (line("train.npz", "trian.npz"), REPAIR, 2, "trian.npz"),
    "no failures": (line('path = "evaluation.npz"', ""), REPAIR, 2, "no failures"),
    "a truncated archive": (write("train.npz", b"PK\x03\x04"), REPAIR, 2, "train.npz"),
    "an array of objects": (arrays("train.npz", y=lambda y: y.astype(object)), REPAIR, 2, "train.npz"),
    "an empty set": (arrays("train.npz", x=lambda x: x[:0], y=lambda y: y[:0]), REPAIR, 2, "no examples"),
    "fewer labels than inputs": (arrays("train.npz", y=lambda y: y[:-1]), REPAIR, 2, "299"),
    "NaN in an input": (arrays("train.npz", x=nan), REPAIR, 2, "NaN or infinity"),
    "a label out of range": (arrays("train.npz", y=lambda y: y + 5), REPAIR, 2, "but the model has 10 outputs"),
    "inputs of another shape": (arrays("train.npz", x=lambda x: x[:, :50]), REPAIR, 2, "the model cannot take"),
    "nothing wrong": (arrays("evaluation.npz", x=lambda x: x[77:], y=lambda y: y[77:]), REPAIR, 2, "gets all of 423"),
    "one failure": (arrays("evaluation.npz", x=lambda x: x[76:], y=lambda y: y[76:]), REPAIR, 2, "1 failure"),
    "indices without a set": (more('[failures]\nindices = [1]\n[evaluation]\n'), REPAIR, 2, "amends.toml"),
    "ids and a path": (more('[failures]\nids = "a.csv"\npath = "b"\n'), REPAIR, 2, "both path and ids"),
    "an index out of range": (more("[failures]\nindices = [1, 500]\n"), REPAIR, 2, "position 500"),
    "a list of ids that is not there": (more('[failures]\nids = "a.csv"\n'), REPAIR, 2, "a.csv"),
    "a CSV without the column": (table("a,b\n1,2\n"), REPAIR, 2, "train.csv"),
    "a CSV with a gap": (also(table("p0,label\n1,0\n,1\n"), more('[data]\nfeatures = ["p0"]\n')), REPAIR, 2, "train"),
    "an IDX file that ends early": (
        also(write("train.idx", gzip.compress(b"\x00\x00\x08\x03\x00\x00\x00\x05")), line("train.npz", "train.idx")),
        REPAIR, 2, "train.idx",
    ),
    "an unknown format": (more('[data]\nformat = "jpeg2000"\n'), REPAIR, 2, "format is 'jpeg2000'"),
    "a transform that is not there": (more('[data]\ntransform = "my_model:crop"\n'), REPAIR, 2, "crop"),
    "a likelihood that does not fit": (more("[likelihood]\nkind = 'gaussian'\nsigma = 1\n"), REPAIR, 2, "[batch, d"),
    "noise nobody knows": (more("[likelihood]\nkind = 'gaussian'\n"), REPAIR, 2, "sigma is not given; amends"),
    "sigma for classes": (more("[likelihood]\nsigma = 2.0\n"), REPAIR, 2, "sigma does not go with categorical"),
    "a list of other things": (more('[data]\nmean = ["a", "b"]\n'), REPAIR, 2, "expected a number or a list of num"),
    "groups that are numbers": (more("group = [-1, 7]\n"), REPAIR, 2, "expected text or a list of texts"),
    "two arrays of labels": (more('[data]\nlabel = ["y", "x"]\n'), REPAIR, 2, "label is ['y', 'x']; train.npz; name"),
    "a likelihood that takes something else": (
        more('[likelihood]\nfunction = "json:loads"\n'), REPAIR, 2, "the likelihood raised TypeError"),
    "too few class weights": (more("[likelihood]\nclass_weights = [1.0]\n"), REPAIR, 2, "the likelihood raised R"),
    "a keep set without a path": (more("[keep.night]\nlabel = 'y'\n"), REPAIR, 2, "keep.night"),
    "a floor below nothing": (nothing, [*REPAIR, "--floor", "-0.5"], 2, "floor is -0.5"),
    "a keep set of another shape": (
        also(lambda f: np.savez(f / "k.npz", x=np.zeros((3, 5)), y=np.zeros(3)), more('[keep.k]\npath = "k.npz"\n')),
        REPAIR, 2, "keep.k",
    ),
    "a run folder that is taken": (
        lambda f: (f / "runs").mkdir() or (f / "runs/mine").write_text("x"), [*REPAIR, "-o", "runs"], 3, "not a run",
    ),
    "a file for a run folder": (write("taken", "x"), [*REPAIR, "-o", "taken"], 2, "taken"),
    "a run of too long a name": (nothing, ["treat", "a" * 300], 2, "File name too long; aaa"),
    "weights of too long a name": (line("model.safetensors", "a" * 300), REPAIR, 2, "File name too long; aaa"),
    "a run that is not there": (nothing, ["treat", "runs/none"], 2, "no such run folder; runs/none"),
    "a folder that is no run": (nothing, ["report", "."], 3, "run.toml is missing"),
    "a damaged run": (write("run.toml", "state = ["), ["runs", "show", "."], 3, "damaged"),
    "a folder of runs that is not there": (nothing, ["runs", "ls"], 2, "no such folder; runs"),
    "init over a file": (nothing, ["init"], 2, "the file already exists; amends.toml"),
    "init from nothing": (nothing, ["init", "new.toml", "--from", "nowhere"], 2, "no such file or folder; nowhere"),
    "init from a strange file": (nothing, ["init", "new.toml", "--from", "my_model.py"], 2, "a .py file"),
    "init from a strange folder": (nothing, ["init", "new.toml", "--from", "."], 2, "neither a Hugging Face"),
    "approved without a run": (nothing, [*REPAIR, "--approved"], 2, "name its folder with -o"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name, template, tmp_path, monkeypatch, capsys):
    damage, args, code, said = CASES[name]
    project = shutil.copytree(template, tmp_path / "project")
    monkeypatch.chdir(project)
    damage(project)
    before = {p: p.read_bytes() for p in sorted(project.rglob("*")) if p.is_file()}
    assert amends(*args) == code, capsys.readouterr().err
    told = capsys.readouterr()
    lines = [line for line in told.err.splitlines() if line]
    assert len(lines) == 1, told.err
    assert lines[0].startswith("error: ")
    assert said in lines[0], lines[0]
    assert "; " in lines[0], f"what and where; what to do: {lines[0]}"
    assert told.out == ""
    assert {p: p.read_bytes() for p in sorted(project.rglob("*")) if p.is_file()} == before, "nothing is written"


def test_there_are_many():
    assert len(CASES) >= 40
