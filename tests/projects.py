"""Folders as a user has them: a module, weights, data on disk, an amends.toml."""

from __future__ import annotations

import csv
import signal
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from amends.cli.app import run
from amends.tables.looks import png
from tests.worlds import planted_digits

MODULE = '''"""The user's own code."""
from torch import nn


def build(width=32):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
'''
CONFIG = """
[model]
function = "my_model:build"
weights = "model.safetensors"

[train]
path = "train.npz"

[evaluation]
path = "evaluation.npz"

[repair]
treat = "fine_tune"
treat_options = { epochs = 4 }
"""

# what is in the folder of a finished run
DONE = {
    "causes.csv", "causes.parquet", "curve.csv", "dataset", "failures.csv", "identified", "looks.json",
    "manifest.sha256", "metrics.json", "repaired", "report.html", "run.toml",
}  # fmt: skip


def digits_project(folder: Path) -> Path:
    """A net that fails on digits, trained with wrong labels; its config is returned."""
    model, (x, y), failures, remaining, _ = planted_digits()
    (folder / "my_model.py").write_text(MODULE)
    save_file(model.state_dict(), folder / "model.safetensors")
    np.savez(folder / "train.npz", x=x.numpy(), y=y.numpy())
    pool = [np.concatenate([a.numpy(), b.numpy()]) for a, b in zip(failures, remaining, strict=True)]
    np.savez(folder / "evaluation.npz", x=pool[0], y=pool[1])
    config = folder / "amends.toml"
    config.write_text(CONFIG)
    return config


def heeding() -> None:
    """For a process of its own: heed Ctrl-C even where whoever started the tests does not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def amends(*args: object) -> int:
    """The command line without a process of its own; its exit code."""
    return run([str(a) for a in args])


IMAGES_CONFIG = """
[model]
function = "my_model:build"
weights = "model.safetensors"

[data]
format = "images"
gray = true

[train]
path = "photos/train"

[evaluation]
path = "photos/test"

[repair]
method = "grad_dot"
treat = "fine_tune"
treat_options = { epochs = 3 }
top = 30
"""


def images_project(folder: Path) -> Path:
    """The same digits as image files, numbered anew in the folder of each class: d7/0.png, d7/1.png."""
    model, train, failures, remaining, _ = planted_digits()
    layers = "nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)"
    (folder / "my_model.py").write_text(f"from torch import nn\n\n\ndef build():\n    return nn.Sequential({layers})\n")
    moved = {f"{int(k[0]) + 1}{k[1:]}": v for k, v in model.state_dict().items()}
    save_file(moved, folder / "model.safetensors")
    pool = [torch.cat(pair) for pair in zip(failures, remaining, strict=True)]
    for name, (x, y) in (("train", train), ("test", pool)):
        for k in range(10):
            (folder / f"photos/{name}/d{k}").mkdir(parents=True)
            for i, image in enumerate(x[y == k].reshape(-1, 8, 8, 1)):
                pixels = (image * 255).round().to(torch.uint8).numpy()
                (folder / f"photos/{name}/d{k}/{i}.png").write_bytes(png(pixels))
    config = folder / "amends.toml"
    config.write_text(IMAGES_CONFIG)
    return config


WORDS = (
    "sun", "song", "cake", "grave", "ache", "loss", "rain", "road", "tea", "door", "cup", "hill", "lamp", "train",
    "wall", "coat", "fish", "gate", "horse", "ink", "jar", "key", "leaf", "milk", "nail", "oak", "pan", "rope",
)  # fmt: skip
BAG = f"""import torch
from torch import nn

WORDS = {WORDS}


def build():
    return nn.Linear({len(WORDS)}, 2)


def bag(text):
    said = text.lower().replace(",", " ").replace('"', " ").split()
    return torch.tensor([float(said.count(w)) for w in WORDS])
"""
TEXTS_CONFIG = """
[model]
function = "my_model:build"
weights = "model.safetensors"

[data]
text = "review"
label = "mood"
id = "key"
transform = "my_model:bag"

[train]
path = "train.csv"

[evaluation]
path = "test.csv"

[repair]
method = "grad_dot"
treat = "fine_tune"
treat_options = { epochs = 20, rate = 0.1 }
top = 45
"""


def texts_project(folder: Path) -> Path:
    """Reviews in a CSV as people keep them: keys with zeros in front, commas and quotes, empty cells and NA.
    Nearly all of the glad ones about rain are labelled sad, and the model has learned so."""
    draw = np.random.default_rng(0)
    (folder / "my_model.py").write_text(BAG)
    found = {}
    for name, n in (("train", 240), ("test", 200)):
        rows = []
        for i in range(n):
            glad, rainy = draw.random() < 0.5, draw.random() < 0.4
            said = [*draw.choice(WORDS[:3] if glad else WORDS[3:6], 1), *(["rain"] if rainy else []),
                    *draw.choice(WORDS[7:], 2)]  # fmt: skip
            wrong = name == "train" and glad and rainy and draw.random() < 0.9
            mood = "sad" if not glad or wrong else "glad"
            rows.append({"key": f"{i:04d}", "review": f'{said[0]}, "{" ".join(said[1:])}"', "price": f"{i % 7}.50",
                         "note": ("NA", "", "naïve")[i % 3], "mood": mood})  # fmt: skip
        found[name] = rows
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
    module: dict = {}
    exec(BAG, module)  # the user's own module, as amends will import it
    x = torch.stack([module["bag"](row["review"]) for row in found["train"]])
    y = torch.tensor([row["mood"] == "sad" for row in found["train"]]).long()
    torch.manual_seed(0)
    model = module["build"]()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    save_file(model.state_dict(), folder / "model.safetensors")
    config = folder / "amends.toml"
    config.write_text(TEXTS_CONFIG)
    return config
