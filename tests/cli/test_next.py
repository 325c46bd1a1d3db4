"""The lines that a command ends with are lines that work."""

from __future__ import annotations

import re
import shlex

import pandas as pd
import safetensors.torch
import torch
from torch import nn

from tests.projects import amends


def lines(capsys) -> list[str]:
    """What is to be copied, in its order; each is one line however long."""
    return re.findall(r"^ {7}(\S.*)$", capsys.readouterr().out.split("What next")[1], re.MULTILINE)


def followed(line: str) -> int:
    name, *args = shlex.split(line)
    assert name == "amends"
    return amends(*args)


def test_after_a_search_and_after_the_repair_that_follows(project, tmp_path, capsys):
    folder = tmp_path / "a folder with a long name, so that the lines below it are longer than the screen is wide"
    assert amends("identify", "-o", folder, "-q", "--method", "grad_dot") == 0
    curve, treat, approved = lines(capsys)
    assert followed(curve) == 0
    assert approved == f"{treat} --approved"
    capsys.readouterr()
    assert amends(*shlex.split(treat)[1:], "--top", 45, "--no-learn", "-q") == 0
    load, *commands = lines(capsys)
    assert [shlex.split(line)[1] for line in commands] == ["patch", "export"]
    assert [followed(line) for line in commands] == [0, 0]
    (project / f"{folder.name}.safetensors").unlink()
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    before = model[0].weight.clone()
    eval(load, {"safetensors": safetensors, "model": model})
    assert not torch.equal(model[0].weight, before)


def test_after_a_refusal(identified, capsys):
    least = pd.read_csv(identified / "causes.csv").tail(5)
    least[["index"]].to_csv(identified.parent / "least.csv", index=False)
    assert amends("treat", identified, "--ids", identified.parent / "least.csv", "--no-learn", "-q") == 0
    (again,) = lines(capsys)
    frame = pd.read_csv(identified / "causes.csv", keep_default_na=False)
    frame["decision"] = ["remove"] * 20 + [""] * (len(frame) - 20)
    frame.to_csv(identified / "causes.csv", index=False)
    assert followed(again) == 0
    assert "Removed: the 20 examples picked by a person." in capsys.readouterr().out
