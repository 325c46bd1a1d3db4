"""Files and settings that are broken or meant to harm: one line and exit code 2, nothing run, nobody kept waiting."""

from __future__ import annotations

import io
import json
import os
import pickle
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import torch

import amends as library
from amends.cli import app
from amends.errors import BadInput, visible
from amends.models import load
from amends.models.weights import read_weights
from amends.runs import manifest
from tests.models.conftest import classifier
from tests.projects import amends, texts_project

__all__ = ["classifier"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    texts_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- code that a received run folder names -----------------------------------------------------------------


VERBS = [["treat", "run"], ["curve", "run"], ["export", "run", "--to", "label-studio"], ["check", "run/run.toml"],
         ["identify", "run/run.toml", "-o", "new"], ["repair", "run/run.toml", "-o", "new"]]  # fmt: skip


def test_a_received_run_runs_nothing_unless_it_is_trusted(here, capsys):
    assert amends("identify", "-o", "run", "-q") == 0
    about = tomllib.loads((here / "run/run.toml").read_text())
    about["config"]["model"] = {"function": "os:system", "options": {"command": "touch pwned"}}
    (here / "run/run.toml").write_text(tomli_w.dumps(about))
    manifest.seal(here / "run")
    for verb in VERBS:
        assert amends(*verb) == 2, verb
        assert "this run was not made here, and it would run os:system; run" in capsys.readouterr().err
    assert not (here / "pwned").exists()


def test_what_was_made_here_goes_on_and_elsewhere_asks_first(here, monkeypatch, capsys, tmp_path_factory):
    assert amends("identify", "-o", "run", "-q") == 0
    assert amends("export", "run", "--to", "label-studio", "-o", "a.json") == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("another user")))
    assert amends("export", "run", "--to", "label-studio", "-o", "b.json") == 2
    assert "then give --trust" in capsys.readouterr().err
    assert amends("export", "run", "--to", "label-studio", "-o", "b.json", "--trust") == 0
    assert amends("treat", "run", "--top", 9, "-q", "--trust") == 0


# --- models -------------------------------------------------------------------------------------------------


def test_no_code_of_a_directory_is_run_or_asked_about(tmp_path, monkeypatch):
    """auto_map in the settings of a tokenizer or an image processor."""
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asked"))
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["ViTForImageClassification"]}))
    for name in ("preprocessor_config.json", "tokenizer_config.json", "processor_config.json"):
        (tmp_path / name).write_text(json.dumps({"auto_map": {"AutoImageProcessor": "evil.Evil"}}))
        with pytest.raises(BadInput, match=f"{name} needs its own code, which is never run"):
            load(huggingface=tmp_path)
        (tmp_path / name).unlink()


@pytest.mark.parametrize("text", ["[]", "3", "{", "null", '{"tokenizer_class": 7}', '{"tokenizer_class": "Nothing"}'])
def test_a_broken_tokenizer_is_said(text, classifier, tmp_path):
    import shutil

    folder = shutil.copytree(classifier, tmp_path / "model")
    (folder / "tokenizer_config.json").write_text(text)
    (folder / "tokenizer.json").write_text(text)
    with pytest.raises(BadInput, match="transformers cannot load the"):
        load(huggingface=folder)


@pytest.mark.parametrize("text", ["[]", "3", "{", '{"modules_to_save": 7}', '{"modules_to_save": [1]}', '"a"'])
def test_a_broken_adapter_config_is_said(text, classifier, tmp_path):
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(BadInput, match=r"adapter_config\.json|modules_to_save"):
        load(huggingface=classifier, adapter=tmp_path)


class Harm:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_pickles_run_nothing_and_nobody_is_told_how_to_run_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Harm()}, "w.pt")
    (tmp_path / "x.pt").write_bytes(pickle.dumps(Harm()))
    np.savez("a.npz", x=np.array([Harm()], dtype=object), y=np.array([0]))
    for path in (tmp_path / "w.pt", tmp_path / "x.pt"):
        with pytest.raises(BadInput) as e:
            read_weights(path)
        assert "weights_only" not in str(e.value)
        assert "\n" not in str(e.value)
    with pytest.raises(BadInput, match="cannot be read"):
        library.data.read(tmp_path / "a.npz")
    assert not (tmp_path / "pwned").exists()


# --- data ---------------------------------------------------------------------------------------------------


def test_big_endian_arrays_are_read(tmp_path):
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    np.savez(tmp_path / "a.npz", x=x.astype(">f4"), y=y.astype(">i8"))
    assert torch.equal(library.data.read(tmp_path / "a.npz").x, torch.tensor(x).float())
    given = library.data.examples((x.astype(">f8"), y.astype(">i4")), "train")
    assert torch.equal(given.x, torch.tensor(x))
    assert given.y.tolist() == y.tolist()


def test_pipes_and_files_under_another_name_are_refused(tmp_path):
    for name in ("a.npz", "a.csv", "w.safetensors"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(BadInput, match="not a file but a pipe"):
            (read_weights if name[0] == "w" else library.data.read)(tmp_path / name)
    np.save(tmp_path / "b.npy", np.zeros(3))
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    with pytest.raises(BadInput, match=r"this is one array \(.npy\)"):
        library.data.read(tmp_path / "b.npz")


@pytest.mark.parametrize("said", ["label_smoothing = 1.5", "label_smoothing = -0.1", "class_weights = [1.0, -1.0]"])
def test_a_loss_that_is_none_is_refused(said, here, capsys):
    with (here / "amends.toml").open("a") as file:
        file.write(f"\n[likelihood]\n{said}\n")
    assert amends("check") == 2
    assert said.split()[0] in capsys.readouterr().err


# --- the terminal -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["--help"], ["runs", "ls", "."]])
def test_a_closed_pipe_is_141(command, here):
    """Whoever writes, click or rich."""
    asked = [sys.executable, "-c", "from amends.cli import main; main()", *command]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdout.close()
        assert p.stderr.read() == b""
        assert p.wait(60) == 141


@pytest.mark.parametrize("closed", ["1", "2", "12"])
def test_a_closed_output_is_no_bug_of_ours(closed):
    """As by a shell's >&- or a service without either."""
    close = "import os, sys\nfor n in map(int, sys.argv[1]): os.close(n)\nos.execv(sys.argv[2], sys.argv[2:])"
    command = [sys.executable, "-m", "amends", "runs", "ls", "/"]
    done = subprocess.run([sys.executable, "-c", close, closed, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("error", [MemoryError("no"), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_out_of_memory_is_no_bug_of_ours(error, monkeypatch, capsys):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("amends.runs.run.runs_in", fail)
    assert app.run(["runs", "ls", "/"]) == 7
    said = capsys.readouterr().err
    assert said.startswith("error: out of memory")
    assert "bug" not in said


def test_no_word_of_the_data_reaches_the_terminal_as_a_command(here, capsys):
    text = (here / "train.csv").read_text().replace("0003,", "\x1b]0;owned\x07\x1b[31m,")
    (here / "train.csv").write_text(text)
    assert amends("identify", "-o", "run", "-q") == 0
    assert amends("runs", "show", "run\x1b[31m") == 2
    assert amends("runs", "show", "run") == 0
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
    assert "\x07" not in told.out
    assert visible("a\x1b[0m\x9b\u202eb\n") == "a\\x1b[0m\\x9b\\u202eb\n"


def test_every_test_is_audited():
    """What the hook of tests/conftest.py is for: it stops both."""
    with socket.socket() as there:
        there.settimeout(0.1)
        with pytest.raises(RuntimeError, match="a connection to 192"):
            there.connect(("192.0.2.1", 80))
    buffer = io.BytesIO(pickle.dumps({"a": OSError}))
    frame = compile("import pickle\npickle.load(buffer)", f"{Path(library.__file__).parent}/x.py", "exec")
    with pytest.raises(RuntimeError, match=r"amends unpickles builtins.OSError"):
        exec(frame, {"buffer": buffer})
