"""Runs of texts, images and rows, made once; and nothing that leaves this machine."""

from __future__ import annotations

import shutil
import socket
import threading

import numpy as np
import pandas as pd
import pytest

from amends import repair as repaired_in_python
from amends.methods import fine_tune, named
from amends.runs import manifest
from tests.export.folders import made
from tests.projects import digits_project, images_project, texts_project
from tests.worlds import planted_digits


@pytest.fixture(autouse=True)
def _nothing_goes_out(monkeypatch):
    """Any connection but to a process of this machine's own fails."""
    connect = socket.socket.connect

    def local(self, address):
        assert self.family == socket.AF_UNIX, f"a connection to {address}"
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local)


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    return made(tmp_path_factory, "texts", texts_project, ("repair", "-o", "runs/whole"),
                ("repair", "-o", "runs/changed", "--relabel"))  # fmt: skip


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    return made(tmp_path_factory, "images", images_project, ("repair", "-o", "runs/whole"),
                ("repair", "-o", "runs/changed", "--relabel"))  # fmt: skip


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    quick = ("--method", "grad_dot")
    return made(tmp_path_factory, "digits", digits_project, ("repair", "-o", "runs/whole", "--top", 30, *quick),
                ("identify", "-o", "runs/found", *quick))  # fmt: skip


@pytest.fixture(scope="session")
def table():
    """Digits as a person has them in pandas, and the model that learned from them."""
    model, (x, y), failures, remaining, _ = planted_digits()
    frame = pd.DataFrame(x.numpy(), columns=[f"p{i}" for i in range(64)])
    frame.insert(0, "note", [f"digit {i}" for i in range(len(x))])
    return model, frame.assign(label=y.numpy()), failures, remaining


@pytest.fixture(scope="session")
def python(tmp_path_factory, table):
    """Two runs made in Python: one that removes, one that relabels."""
    model, frame, failures, remaining = table
    folder = tmp_path_factory.mktemp("python")
    for name, relabel in (("whole", False), ("changed", True)):
        result = repaired_in_python(
            model, frame, failures, remaining, identify_with=named("grad_dot"), remove=30,
            treat_with=fine_tune(epochs=3, relabel=relabel),
        )  # fmt: skip
        result.save(folder / name)
    return folder


@pytest.fixture
def damaged(digits, python, tmp_path):
    """Copies of runs, each with one thing wrong."""
    for name in ("whole", "moved", "torn", "bare", "nothing", "untabled"):
        shutil.copytree(digits / "whole", tmp_path / name)
    shutil.copytree(digits / "found", tmp_path / "found")
    shutil.copytree(python / "whole", tmp_path / "python")
    (tmp_path / "file").write_text("mine")
    data = shutil.copytree(digits.parent, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("runs"))
    with np.load(data / "train.npz") as kept:
        x, y = kept["x"], kept["y"].copy()
    y[0] = (y[0] + 1) % 10
    np.savez(data / "train.npz", x=x, y=y)
    about = (tmp_path / "moved/run.toml").read_text()
    (tmp_path / "moved/run.toml").write_text(about.replace(str(digits.parent), str(data)))
    kept = (tmp_path / "torn/dataset/kept.csv").read_text().splitlines()
    (tmp_path / "torn/dataset/kept.csv").write_text("\n".join(kept[:-3]) + "\n")
    (tmp_path / "bare/dataset/kept.csv").unlink()
    with (tmp_path / "nothing/dataset/kept.csv").open("a") as file:
        file.writelines((tmp_path / "nothing/dataset/removed.csv").read_text().splitlines(keepends=True)[1:])
    (tmp_path / "nothing/dataset/removed.csv").write_text("index,id,given\n")
    (tmp_path / "untabled/causes.parquet").unlink()
    for name in ("moved", "torn", "nothing"):  # as if amends had written them so
        manifest.seal(tmp_path / name)
    return tmp_path


@pytest.fixture
def listener(monkeypatch):
    """Whoever asks a proxy, or Weights & Biases at its address, asks here: also processes of their own."""
    asked: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{server.getsockname()[1]}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "WANDB_BASE_URL"):
        monkeypatch.setenv(name, address)

    def answer():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            asked.append(connection.recv(200))
            connection.close()

    threading.Thread(target=answer, daemon=True).start()
    yield asked
    server.shutdown(socket.SHUT_RDWR)
    server.close()
