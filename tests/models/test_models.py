"""Models from files: they load what fits, run nothing that is in a file, and say why they refuse."""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

from amends.errors import BadInput
from amends.models import load

SOURCE = """
import torch
from torch import nn

def build(width=4):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 2))

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.leave.weight = self.enter.weight

    def forward(self, x):
        return self.leave(self.enter(x).mean(1))

def number():
    return 3

def broken():
    raise RuntimeError("no such file")

NOTHING = 3
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "nets.py").write_text(SOURCE)
    return tmp_path


def trained(width=4, seed=5):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 2))


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def prefixed(state, prefix):
    return {prefix + k: v for k, v in state.items()}


KEPT = {
    "plain": lambda state: state,
    "wrapped": lambda state: {"state_dict": state, "epoch": 3},
    "script": lambda state: {"model": state, "optimizer": {"state": {}}},
    "lightning": lambda state: {"state_dict": prefixed(state, "model."), "hyper_parameters": {"lr": 0.1}},
    "parallel": lambda state: prefixed(state, "module."),
    "compiled": lambda state: prefixed(state, "_orig_mod."),
}


@pytest.mark.parametrize("kept", KEPT)
def test_a_state_dict_in_any_of_its_wrappings(folder, kept):
    model = trained()
    torch.save(KEPT[kept](model.state_dict()), folder / "w.pt")
    loaded = load(function="nets:build", weights="w.pt", folder=folder)
    assert same(loaded.model, model)
    assert loaded.files == ((folder / "nets.py").resolve(), folder / "w.pt")


def test_safetensors_and_options(folder):
    model = trained(7)
    save_model(model, str(folder / "w.safetensors"))
    assert same(load(function="nets:build", options={"width": 7}, weights="w.safetensors", folder=folder).model, model)


def test_tied_weights_go_out_and_come_back_tied(folder, tmp_path):
    loaded = load(function="nets:Tied", folder=folder)
    with torch.no_grad():
        loaded.model.enter.weight.copy_(torch.arange(15.0).view(5, 3))
    out = tmp_path / "out"
    out.mkdir()
    loaded.write(loaded.model, out)
    assert [p.name for p in out.iterdir()] == ["model.safetensors"]
    back = load(function="nets:Tied", weights="out/model.safetensors", folder=folder).model
    assert back.enter.weight is back.leave.weight
    assert torch.equal(back.leave.weight, loaded.model.enter.weight)


def test_importing_leaves_no_trace_but_the_module(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = list(sys.path)
    load(function="nets:build", folder=folder)
    assert sys.path == path
    assert not (folder / "__pycache__").exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "nets.py").write_text("from torch import nn\ndef build():\n    return nn.Linear(1, 9)\n")
    assert load(function="nets:build", folder=other).model.out_features == 9


class Runs:
    """A pickle that does something when it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.write_text, (Path(self.path), "it ran")


class Whole(nn.Module):
    pass


def zipped(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "x")


def quantised(path):
    state = trained().state_dict()
    state["0.weight"] = torch.quantize_per_tensor(state["0.weight"], 0.1, 0, torch.qint8)
    torch.save(state, path)


def int8(path):
    save_file({k: v.to(torch.int8) if k == "0.weight" else v for k, v in trained().state_dict().items()}, path)


FILES = {
    "a malicious pickle": (lambda p: torch.save(Runs(p.parent / "ran"), p), "run code when loaded"),
    "malicious, inside a dict": (lambda p: torch.save({"state_dict": {"w": Runs(p.parent / "ran")}}, p), "run code"),
    "malicious, not torch's": (lambda p: p.write_bytes(pickle.dumps(Runs(p.parent / "ran"))), "run code"),
    "a whole module": (lambda p: torch.save(Whole(), p), "save the state dict alone"),
    "torchscript": (lambda p: zipped(p, "w/data.pkl", "w/constants.pkl", "w/code/__torch__.py"), "TorchScript"),
    "export": (lambda p: zipped(p, "w/archive_format", "w/models/model.json"), "torch.export program"),
    "old export": (lambda p: zipped(p, "serialized_exported_program.json"), "torch.export program"),
    "keras": (lambda p: zipped(p, "config.json", "model.weights.h5"), "Keras"),
    "hdf5": (lambda p: p.write_bytes(b"\x89HDF\r\n\x1a\n0000000000"), "Keras"),
    "gguf": (lambda p: p.write_bytes(b"GGUF0000000000000"), "quantised weights (GGUF)"),
    "tflite": (lambda p: p.write_bytes(b"\x1c\x00\x00\x00TFL300000000000"), "TensorFlow"),
    "text": (lambda p: p.write_text("epoch,loss\n1,0.3\n"), "not a file of weights"),
    "nothing": (lambda p: p.write_bytes(b""), "not a file of weights"),
    "a broken zip": (lambda p: p.write_bytes(b"PK\x03\x04" + b"0" * 40), "the archive is damaged"),
    "a list": (lambda p: torch.save([torch.zeros(3)], p), "expected named tensors, got a list"),
    "numbers": (lambda p: torch.save({"lr": 0.1, "w": torch.zeros(2)}, p), "got a dict with lr, w"),
    "missing": (lambda p: torch.save({"0.weight": torch.zeros(4, 3)}, p), "missing 0.bias, 1.weight, 1.bias and 5"),
    "too many": (lambda p: torch.save({**trained().state_dict(), "x": torch.zeros(2)}, p), "unexpected x"),
    "another width": (lambda p: torch.save(trained(5).state_dict(), p), "0.weight has shape [5, 3], expected [4, 3]"),
    "a prefix that does not fit": (
        lambda p: torch.save(prefixed(trained().state_dict(), "net."), p), "unexpected net.0.weight",
    ),
    "quantised": (quantised, "0.weight is quantised (qint8)"),
    "int8": (int8, "0.weight is quantised (int8)"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")  # the last of its kind, but files exist
def test_a_file_that_cannot_work_is_refused_with_the_reason(folder, kind):
    make, said = FILES[kind]
    make(folder / "w.pt")
    with pytest.raises(BadInput) as caught:
        load(function="nets:build", weights="w.pt", folder=folder)
    message = str(caught.value)
    assert said in message
    assert "; " in message
    assert "\n" not in message
    assert str(folder / "w.pt") in message
    assert not (folder / "ran").exists()


BY_NAME = {
    "w.onnx": (b"\x08\x07", "ONNX"),
    "w.pb": (b"\x08\x01", "TensorFlow"),
    "w.safetensors": (b"\xff" * 20, "the safetensors file is damaged"),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_file_known_by_its_name(folder, name):
    content, said = BY_NAME[name]
    (folder / name).write_bytes(content)
    with pytest.raises(BadInput, match=said):
        load(function="nets:build", weights=name, folder=folder)


CALLS = {
    "nothing given": ({}, "neither function nor huggingface is given"),
    "no colon": ({"function": "nets.build"}, "give package.module:function"),
    "no module": ({"function": "nowhere:build"}, "No module named 'nowhere'"),
    "no such name": ({"function": "nets:bild"}, "nets has no bild"),
    "not callable": ({"function": "nets:NOTHING"}, "NOTHING is an int"),
    "not a module": ({"function": "nets:number"}, "the function returns an int"),
    "it raises": ({"function": "nets:broken"}, "RuntimeError: no such file"),
    "wrong options": ({"function": "nets:build", "options": {"depth": 3}}, "unexpected keyword argument 'depth'"),
    "installed": ({"function": "json:loads"}, "also the name of an installed module"),
    "it does not import": ({"function": "faulty:build"}, "ZeroDivisionError"),
    "no file": ({"function": "nets:build", "weights": "no.pt"}, "No such file"),
    "a folder": ({"function": "nets:build", "weights": "."}, "this is a folder, not a file"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_cannot_work_is_refused_with_the_reason(folder, call):
    (folder / "json.py").write_text("loads = 1")
    (folder / "faulty.py").write_text("1 / 0")
    options, said = CALLS[call]
    with pytest.raises(BadInput) as caught:
        load(**options, folder=folder)
    assert said in str(caught.value)
    assert json.loads("1") == 1
