"""Random damage to configs, command lines and files: one line and the right exit code, never a traceback."""

from __future__ import annotations

import shutil

import pytest

from tests.faults import fuzzing


@pytest.fixture
def _inside(project, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(project, tmp_path / "project"))


@pytest.mark.usefixtures("_inside")
def test_damaged_configs_and_command_lines():
    """The first of `make faults`."""
    tally = fuzzing.configs(60)
    assert tally.wrong == []
    assert len(tally.ways) > 10


@pytest.mark.usefixtures("_inside")
def test_damaged_files():
    tally = fuzzing.files(12)
    assert tally.wrong == []
    assert tally.tried == 60
    assert len(tally.ways) > 10
