"""What a user may allow that is refused otherwise: it is done, and the result says so."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import amends as package
from amends.errors import BadInput
from amends.runs.trust import ask_for_trust
from tests.projects import MODULE, amends
from tests.worlds import QUICK

WHOLE = MODULE + "\n\nclass Net(nn.Sequential):\n    pass\n\n\ndef net():\n    return Net(*build())\n"
QUICKLY = ("--method", "grad_dot", "--top", 30, "--no-learn", "-q")


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


def pickled(project, tmp_path, monkeypatch, **beside):
    """The same project, with its network saved as a whole, and what else is put beside it."""
    folder = shutil.copytree(project, tmp_path / "project")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    (folder / "whole.py").write_text(WHOLE)
    import importlib

    module = importlib.import_module("whole")
    net = module.net()
    net.load_state_dict(load_file("model.safetensors"))
    torch.save({"model": net, **beside}, "model.pt")
    text = Path("amends.toml").read_text().replace("my_model:build", "whole:net")
    Path("amends.toml").write_text(text.replace("model.safetensors", "model.pt"))
    return folder


def test_a_pickle_is_opened_where_the_user_says_so_and_the_result_says_it(
    project, tmp_path, monkeypatch, capsys, request
):
    done = tmp_path / "it ran"
    pickled(project, tmp_path, monkeypatch, callback=Hostile(done))
    assert amends("repair", "-o", "run", *QUICKLY) == 2
    assert "which run code when loaded" in capsys.readouterr().err
    assert not done.exists()
    request.getfixturevalue("unpickling")  # up to here nothing may be unpickled: tests/conftest.py
    assert amends("repair", "-o", "run", *QUICKLY, "--unsafe-pickle") == 0
    assert done.exists(), "this is what the option means"
    assert "the weights were unpickled" in capsys.readouterr().out
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["allowed"] == ["unsafe_pickle"]
    assert "The weights were unpickled, which runs any code in them." in Path("run/report.html").read_text()


def test_a_received_run_cannot_ask_for_it_alone():
    about = {"run": {"folder": "/x"}, "config": {"model": {"huggingface": "b"}, "repair": {"unsafe_pickle": True}}}
    with pytest.raises(BadInput, match="would run what is pickled in its weights"):
        ask_for_trust(about, Path("run.toml"))


def test_trust_is_said(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project)
    assert amends("identify", "-o", tmp_path / "run", "-q", "--method", "grad_dot") == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "somebody else"))
    assert amends("treat", tmp_path / "run", "--top", 30, "--no-learn", "-q") == 2
    assert amends("treat", tmp_path / "run", "--top", 30, "--no-learn", "-q", "--trust") == 0
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["allowed"] == ["trust"]
    assert any(w.startswith("code that a run made elsewhere names was run") for w in metrics["warnings"])
    assert not tomllib.loads((tmp_path / "run/run.toml").read_text())["config"]["repair"].get("trust")


def test_anyway_is_said(planted):
    net, train, failures, remaining, _ = planted
    plain = package.repair(net, train, failures, remaining, **QUICK)
    assert plain.metrics["allowed"] == []
    turned = torch.nn.Sequential(*net, torch.nn.Linear(10, 10, bias=False))
    turned[-1].weight.data = torch.eye(10).roll(1, 0)
    right = turned(remaining[0]).argmax(1) == remaining[1]
    sets = ((remaining[0][~right], remaining[1][~right]), None)
    wrong = package.repair(turned, train, *sets, **QUICK, anyway=True)
    assert wrong.metrics["allowed"] == ["anyway"]
    assert any("in another order" in w for w in wrong.metrics["warnings"])
