"""Data in every format, and a config around it."""

from __future__ import annotations

import gzip
import json
import pickle

import numpy as np
import pandas as pd

import amends as library
from amends.config import read_config
from amends.tables.looks import png
from amends.workflow.job import open_job
from tests.projects import amends

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


def as_npz(folder, name, x, y):
    np.savez(folder / f"{name}.npz", x=x.reshape(len(x), 64) / np.float32(255), y=y)
    return f'path = "{name}.npz"'


def frame_of(x, y):
    columns = {f"p{i}": x.reshape(len(x), 64)[:, i] / 255 for i in range(64)}
    return pd.DataFrame({"id": [f"d{i}" for i in range(len(x))], **columns, "digit": [f"is {k}" for k in y]})


def as_csv(folder, name, x, y):
    frame_of(x, y).to_csv(folder / f"{name}.csv", index=False)
    return f'path = "{name}.csv"\nlabel = "digit"\nid = "id"'


def as_parquet(folder, name, x, y):
    frame_of(x, y).to_parquet(folder / f"{name}.parquet")
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
    assert amends("repair", config, "-o", folder / "run", "--json", "-q", "--anyway") == 0, capsys.readouterr().err
    told = json.loads(capsys.readouterr().out)
    job = open_job(read_config(config))
    sets = {name: job.records.get(name) for name in ("train", "failures", "remaining")}
    asked = {k: v for k, v in vars(job.options).items() if k not in ("least", "whole", "trust", "unsafe_pickle")}
    asked["anyway"] = True  # some of these models are not trained
    result = library.repair(job.loaded, **sets, likelihood=job.given["train"].network.likelihood, **asked)
    kept = json.loads((folder / "run/metrics.json").read_text())
    assert json.loads(json.dumps(result.metrics)) == kept
    assert told["query"] == kept["query"]
    assert (folder / "run/report.html").stat().st_size > 5000
    assert (folder / "run/causes.parquet").exists()
    return told, job, result


def project(folder, model, data, likelihood=""):
    (folder / "amends.toml").write_text(f"[model]\n{model}\n{likelihood}\n{data}\n{REPAIR}")
    return folder / "amends.toml"
