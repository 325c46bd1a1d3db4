"""What the README shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import torch

README = (Path(__file__).parent.parent / "README.md").read_text()


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


def test_the_map_names_every_room():
    from tests.test_rooms import ROOMS

    table = README.split("## Map of the code")[1]
    for room in set(ROOMS) - {"errors", "params", "progress", "prepare", "selection", "conflicts"}:
        assert f"`{room}" in table, room


def test_links_between_pages_lead_somewhere():
    root = Path(__file__).parent.parent
    for page in [root / "README.md", *(root / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"
