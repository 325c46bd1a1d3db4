"""A command that was killed at any instant of its run, and is then run again, ends as if nothing had happened."""

from __future__ import annotations

from tests.faults import stopped
from tests.faults.parts import Part


def test_a_killed_command_run_again(tmp_path, monkeypatch):
    """Of the first eight in `make faults` those of texts: identify, curve, treat and repair."""
    monkeypatch.chdir(tmp_path)
    ended = list(stopped.kills(Part(0, 2, 8)))
    assert [outcome.way.partition(",")[0] for outcome in ended] == ["identify", "curve", "treat", "repair"]
    assert [outcome for outcome in ended if outcome.wrong] == []
