"""What people trip over first: columns by their own names, arrows, gaps in a table, a header that is a comment."""

from __future__ import annotations

import csv
import warnings

import pandas as pd
import pytest

from amends.cli import app
from tests.projects import amends, texts_project


@pytest.fixture
def texts(tmp_path, monkeypatch):
    texts_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_failures_are_found_in_a_file_by_the_name_the_ids_have_everywhere(texts, capsys):
    rows = pd.read_csv("test.csv", dtype=str).iloc[[5, 8, 13, 21]]
    rows[["key"]].to_csv("failed.csv", index=False)
    (texts / "amends.toml").write_text((texts / "amends.toml").read_text() + '\n[failures]\nids = "failed.csv"\n')
    amends("check")
    assert "no column" not in capsys.readouterr().err
    rows[["mood"]].to_csv("failed.csv", index=False)
    assert amends("check") == 2
    assert "no column key or id or index; failed.csv" in capsys.readouterr().err


def test_an_arrow_from_the_keyboard_is_an_arrow(texts, capsys):
    errors = []
    for arrow in ("->", "→"):
        assert amends("identify", "-o", f"run{arrow}", "-q", "--group", f"gladd{arrow}sad") == 2
        errors.append(capsys.readouterr().err)
    assert errors[0] == errors[1]
    assert "gladd→sad" in errors[0]


def test_gaps_are_counted_and_named_by_their_line(texts, capsys):
    rows = pd.read_csv("train.csv", dtype=str, keep_default_na=False)
    rows.loc[1, "note"] = "two\nlines"
    rows.loc[[3, 9], "mood"], rows.loc[7, "review"] = "", ""
    rows.to_csv("train.csv", index=False, quoting=csv.QUOTE_ALL)
    assert amends("check") == 2
    said = capsys.readouterr().err
    assert "3 cells are empty, the first in column mood (others in review); train.csv line 6; fill them in" in said
    assert (texts / "train.csv").read_text().splitlines()[5].endswith('""')


def test_a_key_below_a_header_that_is_a_comment_gets_a_hint(texts, capsys):
    text = (texts / "amends.toml").read_text().replace("[model]", "# [model]")
    (texts / "amends.toml").write_text(text)
    assert amends("check") == 2
    said = capsys.readouterr().err
    assert "function is a key outside of every table; amends.toml; write it below [model]" in said


def test_a_warning_comes_once(monkeypatch, capsys):
    def warn(*_, **__):
        for _ in range(3):
            warnings.warn_explicit("look out", UserWarning, "amends/x.py", 1, module="amends.x")
        return [], []

    monkeypatch.setattr("amends.runs.run.runs_in", warn)
    assert app.run(["runs", "ls", "/"]) == 0
    assert capsys.readouterr().err == "warning: look out\n"
