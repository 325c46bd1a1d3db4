"""Hostile files: refused in one line within two seconds, nothing in them is run, nothing outside is touched."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.faults.hostile import HOSTILE
from tests.faults.making import PWNED
from tests.projects import amends


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name, template, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asked"))
    here = shutil.copytree(template, tmp_path / "deep" / "project")
    monkeypatch.chdir(here)
    Path("amends.toml").write_text(HOSTILE[name]())
    start = time.process_time()
    assert amends("check", "-q") == 2
    took = time.process_time() - start
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert not [word for word in ("weights_only", "allow_pickle", "Ghostscript") if word in said.err]
    assert list(tmp_path.rglob(PWNED)) == []
    assert took < 2


def test_there_are_many():
    assert len(HOSTILE) >= 50
