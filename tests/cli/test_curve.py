"""`amends curve`: accuracy over the number removed."""

from __future__ import annotations

import json

from tests.projects import amends


def test_the_curve_of_a_large_model_has_one_control_at_random(identified, monkeypatch, capsys):
    monkeypatch.setattr("amends.evidence.params.LARGE", 1)
    assert amends("curve", identified) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1].isdigit()]
    assert len(rows) > 3
    without_control = sum("-" in row for row in rows)
    assert without_control == len(rows) - 2, "all but the row of nothing removed and the chosen one"


def test_the_curve_is_kept_and_shown_again(identified, capsys):
    assert amends("curve", identified, "--json", "-q") == 0
    first = json.loads(capsys.readouterr().out)
    kept = (identified / "curve.csv").read_bytes()
    assert amends("curve", identified, "--json", "-q") == 0
    again = json.loads(capsys.readouterr().out)
    assert [r["removed"] for r in again["curve"]] == [r["removed"] for r in first["curve"]]
    assert (identified / "curve.csv").read_bytes() == kept
    assert amends("curve", identified) == 0
    assert "How many to remove" in capsys.readouterr().out
