"""Random damage to configs, command lines and files: one line and the right exit code, never a traceback."""

from __future__ import annotations

import pytest

from tests.faults import fuzzing
from tests.faults.parts import Part


@pytest.mark.parametrize("work", [fuzzing.configs, fuzzing.files])
def test_random_damage(work, tmp_path, monkeypatch):
    """The first of `make faults`."""
    monkeypatch.chdir(tmp_path)
    ended = list(work(Part(0, 1, 60)))
    assert [outcome for outcome in ended if outcome.wrong] == []
    assert len({outcome.key for outcome in ended}) == 60
    assert len({outcome.way for outcome in ended}) > 10
