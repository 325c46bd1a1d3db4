"""Every kind of data and model, from files to a fresh run folder: on the command line, and the same in Python."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from amends.tables.looks import png
from tests.models.conftest import adapter, causal, classifier, images  # noqa: F401
from tests.models.tiny import sentences
from tests.workflow.kinds import MODEL, PIXELS, REPAIR, ROWS, as_npz, frame_of, project, run_both


@pytest.fixture(scope="module")
def digits(planted):
    """train and test as uint8 images [n, 8, 8] with labels, and the weights of a net that fails on them."""
    model, (x, y), failures, remaining, _ = planted
    pool = [torch.cat(pair) for pair in zip(failures, remaining, strict=True)]
    sets = {
        name: ((x.reshape(-1, 8, 8) * 255).round().to(torch.uint8).numpy(), y.numpy())
        for name, (x, y) in (("train", (x, y)), ("test", pool))
    }
    return sets, model.state_dict()


@pytest.mark.parametrize("write", [*ROWS, *PIXELS], ids=lambda f: f.__name__)
def test_data_in_every_format(write, digits, tmp_path, capsys):
    sets, state = digits
    (tmp_path / "my_model.py").write_text(MODEL)
    image = write in PIXELS
    torch.save({(f"{int(k[0]) + 1}{k[1:]}" if image else k): v for k, v in state.items()}, tmp_path / "weights.pt")
    text = f'[model]\nfunction = "my_model:{"pixels" if image else "flat"}"\nweights = "weights.pt"\n'
    for table, name in (("train", "train"), ("evaluation", "test")):
        text += f"\n[{table}]\n{write(tmp_path, name, *sets[name])}\n"
    (tmp_path / "amends.toml").write_text(text + REPAIR)
    told, job, result = run_both(tmp_path / "amends.toml", tmp_path, capsys)
    assert len(job.records["train"]) == 300
    assert told["query"]["n"] + told["holdout"]["n"] == len(job.records["failures"]) == 77
    assert result.given["train"].examples.classes == job.records["train"].classes


@pytest.fixture
def texts(tmp_path):
    """Two CSV files of sentences."""
    for name, n, seed in (("train", 40, 0), ("test", 60, 1)):
        said, y = sentences(n, seed)
        frame = pd.DataFrame({"text": said, "label": np.where(y.numpy() == 1, "positive", "negative")})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    return '[data]\ntext = "text"\n[train]\npath = "train.csv"\n[evaluation]\npath = "test.csv"\n'


def test_a_hugging_face_classifier_of_texts(classifier, texts, tmp_path, capsys):  # noqa: F811
    told, _, _ = run_both(project(tmp_path, f'huggingface = "{classifier}"', texts), tmp_path, capsys)
    assert set(told["confusion"]["classes"]) == {"negative", "positive"}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        p.name for p in (tmp_path / "run/repaired").iterdir()
    }


def test_an_adapter(classifier, adapter, texts, tmp_path, capsys):  # noqa: F811
    model = f'huggingface = "{classifier}"\nadapter = "{adapter}"'
    run_both(project(tmp_path, model, texts), tmp_path, capsys)
    written = {p.name for p in (tmp_path / "run/repaired").iterdir()}
    assert "adapter_model.safetensors" in written
    assert "model.safetensors" not in written


def test_a_causal_language_model(causal, texts, tmp_path, capsys):  # noqa: F811
    data = texts.replace("[data]", '[data]\ntarget = "tokens"')
    data = data.replace('[evaluation]\npath = "test.csv"', '[failures]\npath = "test.csv"')
    told, _, _ = run_both(project(tmp_path, f'huggingface = "{causal}"', data), tmp_path, capsys)
    assert told["remaining"] is None
    assert "confusion" not in told


def test_a_hugging_face_classifier_of_images(images, digits, tmp_path, capsys):  # noqa: F811
    sets, _ = digits
    for name in ("train", "test"):
        x, y = sets[name]
        for i, k in enumerate(y[:60] % 3):
            where = tmp_path / name / ("cat", "dog", "cow")[k]
            where.mkdir(parents=True, exist_ok=True)
            (where / f"{i}.png").write_bytes(png(np.repeat(x[i][:, :, None], 3, 2)))
    data = '[train]\npath = "train"\n[evaluation]\npath = "test"\n'
    _, job, _ = run_both(project(tmp_path, f'huggingface = "{images}"', data), tmp_path, capsys)
    assert job.records["train"].classes == ("cat", "dog", "cow")


def test_a_lightning_checkpoint(digits, tmp_path, capsys):
    sets, state = digits
    (tmp_path / "my_model.py").write_text(
        MODEL
        + """

import lightning


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = small()

    def forward(self, x):
        return self.net(x)
"""
    )
    kept = {"state_dict": {f"net.{k}": v for k, v in state.items()}, "pytorch-lightning_version": "2.6", "epoch": 3}
    torch.save(kept, tmp_path / "last.ckpt")
    tables = [f"[{t}]\n{as_npz(tmp_path, n, *sets[n])}\n" for t, n in (("train", "train"), ("evaluation", "test"))]
    model = 'function = "my_model:Digits"\nweights = "last.ckpt"'
    told, _, _ = run_both(project(tmp_path, model, "\n".join(tables)), tmp_path, capsys)
    assert told["query"]["n"] + told["holdout"]["n"] == 77


def test_a_skorch_net(digits, tmp_path, capsys):
    """It answers with probabilities, and its criterion says so."""
    sets, state = digits
    (tmp_path / "my_model.py").write_text(
        MODEL
        + """

from skorch import NeuralNetClassifier


class Sure(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = small()

    def forward(self, x):
        return self.net(x).softmax(-1)


def net():
    return NeuralNetClassifier(Sure, train_split=None).initialize()
"""
    )
    torch.save({f"net.{k}": v for k, v in state.items()}, tmp_path / "params.pt")
    tables = [f"[{t}]\n{as_npz(tmp_path, n, *sets[n])}\n" for t, n in (("train", "train"), ("evaluation", "test"))]
    model = 'function = "my_model:net"\nweights = "params.pt"'
    told, _, _ = run_both(project(tmp_path, model, "\n".join(tables)), tmp_path, capsys)
    assert told["query"]["n"] + told["holdout"]["n"] == 77
    assert set(load_file(tmp_path / "run/repaired/model.safetensors")) == {f"net.{k}" for k in state}


def test_several_labels_a_row(digits, tmp_path, capsys):
    sets, _ = digits
    (tmp_path / "my_model.py").write_text("from torch import nn\n\n\ndef build():\n    return nn.Linear(64, 2)\n")
    torch.manual_seed(0)
    torch.save(nn.Linear(64, 2).state_dict(), tmp_path / "w.pt")
    for name, (x, y) in sets.items():
        frame = frame_of(x, y).drop(columns="digit").assign(even=(y % 2 == 0).astype(int), large=(y > 4).astype(int))
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    data = '[data]\nlabel = ["even", "large"]\ntarget = "labels"\nid = "id"\n[train]\npath = "train.csv"\n' \
           '[evaluation]\npath = "test.csv"\n'  # fmt: skip
    model = 'function = "my_model:build"\nweights = "w.pt"'
    _, job, _ = run_both(project(tmp_path, model, data, '[likelihood]\nkind = "bernoulli"\n'), tmp_path, capsys)
    assert job.records["train"].y.shape == (300, 2)


def test_real_targets(tmp_path, capsys):
    from sklearn.datasets import load_diabetes

    frame = load_diabetes(as_frame=True).frame
    frame["target"] = (frame["target"] - 150) / 75
    frame[:250].to_csv(tmp_path / "train.csv", index=False)
    frame[250:].to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "my_model.py").write_text("from torch import nn\n\n\ndef build():\n    return nn.Linear(10, 1)\n")
    torch.manual_seed(0)
    torch.save(nn.Linear(10, 1).state_dict(), tmp_path / "w.pt")
    data = '[data]\nlabel = "target"\ntarget = "real"\n[train]\npath = "train.csv"\n[evaluation]\npath = "test.csv"\n'
    said = '[likelihood]\nkind = "gaussian"\nsigma = 0.8\nbound = 1.0\n'
    model = 'function = "my_model:build"\nweights = "w.pt"'
    told, job, _ = run_both(project(tmp_path, model, data, said), tmp_path, capsys)
    assert job.records["train"].features == tuple(frame.columns[:-1])
    assert 0 < told["query"]["n"] < 192
    assert told["reason"].endswith("right is within 1 of the target")


def test_own_losses_from_a_config(planted, digits, tmp_path, capsys):
    sets, state = digits
    (tmp_path / "my_model.py").write_text(
        MODEL
        + """

def halved(outputs, targets):
    return -0.5 * nn.functional.cross_entropy(outputs, targets, reduction="none")
"""
    )
    torch.save(state, tmp_path / "w.pt")
    tables = "\n".join(
        f"[{t}]\n{as_npz(tmp_path, n, *sets[n])}\n" for t, n in (("train", "train"), ("evaluation", "test"))
    )
    model, before = 'function = "my_model:flat"\nweights = "w.pt"', []
    for said in ("label_smoothing = 0.1", f"class_weights = {[1.0] * 9 + [3.0]}", 'function = "my_model:halved"'):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        _, _, result = run_both(project(tmp_path, model, tables, f"[likelihood]\n{said}\n"), tmp_path, capsys)
        before.append(result.influence.before)
    plain = torch.log_softmax(planted[0](torch.tensor(sets["train"][0].reshape(-1, 64) / np.float32(255))), -1)
    given = plain.gather(1, torch.tensor(sets["train"][1])[:, None])[:, 0].detach().numpy()
    nines = sets["train"][1] == 9
    assert np.allclose(before[2], given / 2, atol=1e-4)
    assert np.allclose(before[1], np.where(nines, 3 * given, given), atol=1e-4)
    assert not np.allclose(before[0], given, atol=1e-2)
