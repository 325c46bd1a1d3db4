"""The example for Ray, on a local one: the same bytes as one search. Left out where Ray is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import amends

pytest.importorskip("ray", reason="Ray is not installed, and is no dependency")
SCRIPT = Path(__file__).parents[2] / "examples/ray_identify.py"


def test_the_example_for_ray_gives_the_bytes_of_one_search(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project)
    assert amends("identify", "-q", "--method", "functional", "-o", tmp_path / "whole") == 0
    command = [sys.executable, str(SCRIPT), "amends.toml", "--parts", "3", "--out", str(tmp_path / "merged")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("causes.csv", "identified/scores.npz"):
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
