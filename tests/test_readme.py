"""What the README shows is what happens."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from amends.config import read_config
from tests.test_rooms import ROOMS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_runs(tmp_path, monkeypatch):
    torch.manual_seed(0)
    centres = 2 * torch.randn(3, 5)
    y = torch.randint(0, 3, (1200,))
    x = centres[y] + torch.randn(1200, 5)
    given = torch.where((y == 0) & (torch.rand(1200) < 0.6), 1, y)
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x[:900]), given[:900]).backward()
        optimiser.step()
    ok = model(x[900:]).argmax(1) == y[900:]
    scope = {
        "model": model, "train": (x[:900], given[:900]), "failures": (x[900:][~ok], y[900:][~ok]),
        "remaining": (x[900:][ok], y[900:][ok]),
    }  # fmt: skip
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    monkeypatch.chdir(tmp_path)
    exec(code, scope)
    assert isinstance(scope["result"].causes, pd.DataFrame)
    assert scope["influence"].scores.shape == (900,)
    assert (tmp_path / "runs/digits/repaired/model.safetensors").exists()
    assert isinstance(scope["fixed"], torch.nn.Module)


def test_it_takes_a_minute():
    assert len(README.splitlines()) <= 120


def test_the_config_can_be_read(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", README, re.S)
    (tmp_path / "amends.toml").write_text(block)
    config = read_config(tmp_path / "amends.toml")
    assert config["train"]["path"] == "photos/train"
    assert config["model"]["weights"] == "model.safetensors"


def test_the_map_names_every_room():
    rows = README.split("## Map of the code")[1].split("\n\n")[2].splitlines()[2:]
    assert len(rows) == 10
    named = re.findall(r"`(\w+)/?`", " ".join(row.split("|")[1] for row in rows))
    assert named == ROOMS


FIGURES = ("precision", "loss", "before", "nothing", "without_wrong", "repaired")  # in the order of the README


def test_the_figures_are_those_of_the_results():
    """Of the rows that are kept, in the README and on the page of the default's choices."""
    with (ROOT / "docs/results/default/repaired.csv").open(newline="") as f:
        made = list(csv.DictReader(f))
    ours = rows_of(README.split("## Does it work?")[1].split("##")[0])
    told = {name.split(":")[0]: [short(cell) for cell in cells] for name, cells in ours.items()}
    page = (ROOT / "docs/results/choices.md").read_text()
    page = rows_of(page.split("## What a repair hands back")[1].split("\n## ")[0])
    for setting in {row["setting"] for row in made}:
        mine = [row for row in made if row["setting"] == setting]
        columns = {name: np.array([float(row[name]) for row in mine]) for name in FIGURES}
        means = [("" if np.isnan(c).any() else short(f"{c.mean():.3f}")) for c in columns.values()]
        assert told.get(setting, means) == means, setting
        cells = page[setting]
        both = ("loss", "precision", *FIGURES[2:])
        spreads = ["" if np.isnan(c).any() else f"{c.mean():.3f} ± {c.std():.3f}" for c in map(columns.get, both)]
        refused = sum(row["verdict"] == "not repaired" for row in mine)
        assert [cell.strip() for cell in cells] == [*spreads, f"{refused} of {len(mine)}"], setting
    assert len(told.keys() & {row["setting"] for row in made}) == 5


def rows_of(text):
    lines = [line[1:-1].split("|") for line in text.splitlines() if line.startswith("|")][2:]
    return {name.strip(): cells for name, *cells in lines}


def short(figure):
    return figure.strip().split(" ")[0].split(",")[0].removeprefix("0")


def test_links_between_pages_lead_somewhere():
    root = Path(__file__).parent.parent
    for page in [root / "README.md", *(root / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"
