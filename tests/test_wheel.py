"""The wheel, built and installed into an empty environment: nothing it needs is left behind in the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import amends

ROOT = Path(amends.__file__).parent.parent
WORK = """
import sys
import numpy as np, torch
import amends
assert str(sys.prefix) in amends.__file__, amends.__file__
torch.manual_seed(0)
x = torch.randn(60, 4); y = (x[:, 0] > 0).long()
wrong = y.clone(); wrong[:12] = 1 - wrong[:12]
model = torch.nn.Linear(4, 2)
for _ in range(200):
    model.zero_grad(); torch.nn.functional.cross_entropy(model(x), wrong).backward()
    for p in model.parameters(): p.data -= 0.5 * p.grad
result = amends.repair(model, (x, wrong), (x[:12], y[:12]), (x[12:], y[12:]), remove=12,
                       treat_with=amends.methods.fine_tune(epochs=2))
result.save(sys.argv[1])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as z:
        names = {n for n in z.namelist() if ".dist-info/" not in n}
    tracked = subprocess.run(["git", "ls-files", "amends"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert names >= set(tracked) if tracked else names
    assert all(n.startswith("amends/") and "__pycache__" not in n for n in names)
    assert {"amends/py.typed", "amends/report/style.css"} <= names


def test_it_names_what_it_needs(wheel):
    with zipfile.ZipFile(wheel) as z:
        meta = next(n for n in z.namelist() if n.endswith("METADATA"))
        said = Parser().parsestr(z.read(meta).decode())
    needs = {r.split(">")[0].split(";")[0].strip() for r in said.get_all("Requires-Dist") if "extra ==" not in r}
    assert needs == {"torch", "numpy", "pandas", "pyarrow", "safetensors", "tomli-w", "click", "rich"}
    assert said["Version"] == amends.__version__


def test_it_works_in_an_empty_environment(wheel, tmp_path):
    """Dependencies are borrowed from this environment, to save unpacking torch once more; amends is not."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "empty"], check=True)
    python = tmp_path / "empty/bin/python"
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([python, "-m", "pip", "install", *quiet, wheel], check=True)
    inside = {"env": {**os.environ, "PYTHONPATH": sysconfig.get_paths()["purelib"]}, "cwd": tmp_path}
    done = subprocess.run([python, "-c", WORK, tmp_path / "run"], capture_output=True, text=True, **inside)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/report.html").stat().st_size > 10_000
    for args in (["--version"], ["runs", "show", tmp_path / "run"], ["init", tmp_path / "amends.toml"]):
        done = subprocess.run([tmp_path / "empty/bin/amends", *args], capture_output=True, text=True, **inside)
        assert done.returncode == 0, done.stderr
