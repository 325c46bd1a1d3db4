"""The page on methods of one's own, run as it stands."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from shutil import copytree, ignore_patterns
from types import ModuleType

import numpy as np
import torch
from torch import nn
from torch.testing import assert_close

import amends
from tests.conftest import classification, factor

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "extending.md").read_text()


def blocks():
    return re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def imported():
    """Names that the page imports from amends, by package."""
    tree = ast.parse(blocks()[0])
    return {node.module: {alias.name for alias in node.names} for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module.startswith("amends")}  # fmt: skip


def test_what_the_page_imports_is_public_and_covered_by_the_version():
    covered = (
        (DOCS / "versioning.md").read_text().split("**What is covered**")[1].split("**What a version may change**")[0]
    )
    assert len(imported()) == 5
    for package, names in imported().items():
        assert names <= set(import_module(package).__all__), package
        assert f"`{package}`" in covered, package


def test_a_method_inside_amends_is_one_file_and_one_line(tmp_path):
    """The page's method in a copy of amends: by name, in the config, in the stub and in the docs."""
    root, environment = DOCS.parent, os.environ | {"PYTHONPATH": str(tmp_path)}
    for part in ("amends", "docs"):
        copytree(root / part, tmp_path / part, ignore=ignore_patterns("__pycache__", "images"))
    (tmp_path / "amends/methods/library/mas.py").write_text(blocks()[0])
    table, row = tmp_path / "amends/methods/table.py", re.search(r'`(Row\("mas", .*\),)`', PAGE)[1]
    table.write_text(table.read_text().replace('    Row("linear",', f'    {row}\n    Row("linear",', 1))

    def python(*command):
        given = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
        done = subprocess.run([sys.executable, *command], **given)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    written = ["amends/methods/__init__.pyi", "docs/methods.md", "docs/reference/cli.md", "docs/reference/api.md"]
    assert python("docs/tables.py") == [f"wrote {name}" for name in written]
    for name in written:
        changed = set((tmp_path / name).read_text().splitlines()) - set((root / name).read_text().splitlines())
        assert changed, name
        assert all("mas" in line for line in changed), name
    names = "from amends.config.keys import IDENTIFY, TREAT; print('mas' in IDENTIFY and 'mas' in TREAT)"
    maker = "from amends import methods; print(methods.named('mas', strength=2.0) == methods.mas(2.0))"
    assert python("-c", names) == python("-c", maker) == ["True"]


def test_a_method_in_under_forty_lines_does_both_steps(monkeypatch):
    written, used = blocks()
    assert len(written.strip().splitlines()) < 40
    x, y, network = classification(n=80)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    optimiser = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x[:50]), y[:50]).backward()
        optimiser.step()
    optimiser.zero_grad()
    with torch.no_grad():
        fails = model(x[50:]).argmax(1) != y[50:]
    before = [p.detach().clone() for p in model.parameters()]
    world = {"amends": amends, "model": model, "train": (x[:50], y[:50]), "failures": (x[50:][fails], y[50:][fails]),
             "remaining": (x[50:][~fails], y[50:][~fails]), "__name__": "page"}  # fmt: skip
    monkeypatch.setitem(sys.modules, "page", ModuleType("page"))  # a dataclass asks for its module
    exec(written, world)
    exec(used, world)
    assert np.isfinite(world["influence"].scores).all()
    assert not torch.equal(world["repaired"][0].weight, model[0].weight)
    assert world["result"].metrics["verdict"] in ("repaired", "partly repaired", "not repaired")
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))

    data = factor(network, x[:20], y[:20])
    importance = world["MemoryAware"](2.0)(data).precision.data
    for k in importance:
        total = torch.zeros_like(importance[k])
        for i in range(20):
            live = {n: p.clone().requires_grad_() for n, p in network.params.items()}
            length = (network.outputs(live, x[i : i + 1]) ** 2).sum()
            total += torch.autograd.grad(length, live[k])[0].abs()
        assert_close(importance[k], 2 * total)
