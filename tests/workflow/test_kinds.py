"""Every kind of data and model, from files to a fresh run folder: on the command line, and the same in Python."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import amends as library
from amends.config import read_config
from amends.tables.looks import png
from amends.workflow.job import open_job
from tests.models.test_huggingface import adapter, causal, classifier, images, sentences  # noqa: F401
from tests.projects import amends
from tests.worlds import planted_digits

MODEL = """from torch import nn


class Shrink(nn.Module):
    \"\"\"Any image of a digit to 64 numbers.\"\"\"

    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x.mean(1), 8).flatten(1)


def small():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def flat():
    return small()


def pixels():
    return nn.Sequential(Shrink(), *small())
"""
REPAIR = """
[repair]
method = "grad_dot"
treat = "fine_tune"
treat_options = { epochs = 1 }
learn = false
top = 20
"""


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """train and test as uint8 images [n, 8, 8] with labels, and the weights of a net that fails on them."""
    model, (x, y), failures, remaining, _ = planted_digits()
    pool = [torch.cat(pair) for pair in zip(failures, remaining, strict=True)]
    sets = {
        name: ((x.reshape(-1, 8, 8) * 255).round().to(torch.uint8).numpy(), y.numpy())
        for name, (x, y) in (("train", (x, y)), ("test", pool))
    }
    return sets, model.state_dict()


def as_npz(folder, name, x, y):
    np.savez(folder / f"{name}.npz", x=x.reshape(len(x), 64) / np.float32(255), y=y)
    return f'path = "{name}.npz"'


def _frame(x, y):
    columns = {f"p{i}": x.reshape(len(x), 64)[:, i] / 255 for i in range(64)}
    return pd.DataFrame({"id": [f"d{i}" for i in range(len(x))], **columns, "digit": [f"is {k}" for k in y]})


def as_csv(folder, name, x, y):
    _frame(x, y).to_csv(folder / f"{name}.csv", index=False)
    return f'path = "{name}.csv"\nlabel = "digit"\nid = "id"'


def as_parquet(folder, name, x, y):
    _frame(x, y).to_parquet(folder / f"{name}.parquet")
    return f'path = "{name}.parquet"\nlabel = "digit"\nid = "id"'


def as_idx(folder, name, x, y):
    part = "train" if name == "train" else "t10k"
    head = b"\x00\x00\x08\x03" + b"".join(int(n).to_bytes(4, "big") for n in x.shape)
    (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + x.tobytes()))
    head = b"\x00\x00\x08\x01" + len(y).to_bytes(4, "big")
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + y.astype(np.uint8).tobytes())
    return f'path = "."\nformat = "idx"\nsplit = "{name}"'


def _large(x):
    """As CIFAR has them: [n, 3, 32, 32]."""
    return np.repeat(x.repeat(4, 1).repeat(4, 2)[:, None], 3, axis=1)


def as_cifar_binary(folder, name, x, y):
    rows = np.concatenate([y.astype(np.uint8)[:, None], _large(x).reshape(len(x), 3072)], 1)
    where = folder / "cifar"
    where.mkdir(exist_ok=True)
    (where / ("data_batch_1.bin" if name == "train" else "test_batch.bin")).write_bytes(rows.tobytes())
    return f'path = "cifar"\nformat = "cifar10"\nsplit = "{name}"'


def as_cifar_python(folder, name, x, y):
    where = folder / "cifar"
    where.mkdir(exist_ok=True)
    batch = {b"data": _large(x).reshape(len(x), 3072), b"labels": y.tolist(), b"batch_label": b"", b"filenames": []}
    (where / ("data_batch_1" if name == "train" else "test_batch")).write_bytes(pickle.dumps(batch, protocol=2))
    return f'path = "cifar"\nformat = "cifar10"\nsplit = "{name}"'


def as_folder(folder, name, x, y):
    for i, (image, k) in enumerate(zip(x, y, strict=True)):
        (folder / name / f"d{k}").mkdir(parents=True, exist_ok=True)
        (folder / name / f"d{k}" / f"{i}.png").write_bytes(png(image[:, :, None]))
    return f'path = "{name}"\ngray = true'


def as_paths(folder, name, x, y):
    (folder / "files").mkdir(exist_ok=True)
    rows = []
    for i, (image, k) in enumerate(zip(x, y, strict=True)):
        (folder / "files" / f"{name}{i}.png").write_bytes(png(image[:, :, None]))
        rows.append({"file": f"files/{name}{i}.png", "label": int(k)})
    pd.DataFrame(rows).to_csv(folder / f"{name}.csv", index=False)
    return f'path = "{name}.csv"\nimage = "file"\ngray = true'


def as_dataset(folder, name, x, y):
    from datasets import Dataset

    columns = {"x": (x.reshape(len(x), 64) / 255).tolist(), "label": y.tolist(), "note": ["of mine"] * len(x)}
    Dataset.from_dict(columns).save_to_disk(folder / name)
    return f'path = "{name}"\nformat = "huggingface"\nfeatures = ["x"]'


ROWS = (as_npz, as_csv, as_parquet, as_dataset)
PIXELS = (as_idx, as_cifar_binary, as_cifar_python, as_folder, as_paths)


def run_both(config, folder, capsys):
    """Through the command line, then through Python with what it read: the same result."""
    assert amends("repair", config, "-o", folder / "run", "--json", "-q") == 0, capsys.readouterr().err
    told = json.loads(capsys.readouterr().out)
    job = open_job(read_config(config))
    sets = {name: job.records.get(name) for name in ("train", "failures", "remaining")}
    asked = {k: v for k, v in vars(job.options).items() if k != "least"}
    result = library.repair(job.loaded, **sets, likelihood=job.given["train"].network.likelihood, **asked)
    kept = json.loads((folder / "run/metrics.json").read_text())
    assert json.loads(json.dumps(result.metrics)) == kept
    assert told["query"] == kept["query"]
    assert (folder / "run/report.html").stat().st_size > 5000
    assert (folder / "run/causes.parquet").exists()
    return told, job, result


@pytest.mark.parametrize("write", [*ROWS, *PIXELS], ids=lambda f: f.__name__)
def test_data(write, digits, tmp_path, capsys):
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


def project(folder, model, data, likelihood=""):
    (folder / "amends.toml").write_text(f"[model]\n{model}\n{likelihood}\n{data}\n{REPAIR}")
    return folder / "amends.toml"


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
        frame = _frame(x, y).drop(columns="digit").assign(even=(y % 2 == 0).astype(int), large=(y > 4).astype(int))
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


def test_own_losses_from_a_config(digits, tmp_path, capsys):
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
    model, found = 'function = "my_model:flat"\nweights = "w.pt"', []
    for said in ("label_smoothing = 0.1", f"class_weights = {[1.0] * 9 + [3.0]}", 'function = "my_model:halved"'):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        _, _, result = run_both(project(tmp_path, model, tables, f"[likelihood]\n{said}\n"), tmp_path, capsys)
        found.append(result.influence.before)
    plain = torch.log_softmax(planted_digits()[0](torch.tensor(sets["train"][0].reshape(-1, 64) / np.float32(255))), -1)
    given = plain.gather(1, torch.tensor(sets["train"][1])[:, None])[:, 0].detach().numpy()
    nines = sets["train"][1] == 9
    assert np.allclose(found[2], given / 2, atol=1e-4)
    assert np.allclose(found[1], np.where(nines, 3 * given, given), atol=1e-4)
    assert not np.allclose(found[0], given, atol=1e-2)
