"""Words in CSV files come back as they were, whatever is in them, and no spreadsheet computes them."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest

from amends.runs.files import read_table
from amends.tables.cells import guarded, unguarded, write_table
from tests.projects import amends, texts_project

WORDS = ["a\rb", "\r", "x\r\ny", "tab\there", 'quo"te', "com,ma", "semi;colon", "=1+1", "'=1+1", "@SUM(A1)", "-2", "+x",
         "- a dash", "", "NA", "naïve", "\u2028", "'plain"]  # fmt: skip


def test_every_word_comes_back(tmp_path):
    frame = pd.DataFrame({"index": range(len(WORDS)), "=head": WORDS, "x\ry": WORDS[::-1]})
    write_table(frame, tmp_path / "t.csv")
    back = read_table(tmp_path / "t.csv", ("index",), dtype=str, keep_default_na=False)
    assert back.drop(columns="index").to_dict("list") == frame.drop(columns="index").to_dict("list")
    rows = list(csv.reader(io.StringIO((tmp_path / "t.csv").read_text(), newline="")))
    assert [len(row) for row in rows] == [3] * (len(WORDS) + 1)


def test_no_cell_begins_as_a_formula_does(tmp_path):
    write_table(pd.DataFrame({"=head": WORDS}), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    for cell in cells:
        assert not cell.startswith(("=", "+", "@", "\t", "\r")), cell
        assert not cell.startswith("-") or float(cell) is not None


@pytest.mark.parametrize("word", WORDS)
def test_guarding_is_undone(word):
    assert unguarded(guarded(word)) == word


def test_numbers_are_written_as_short_as_tells_them_apart(tmp_path):
    frame = pd.DataFrame({"a": np.array([0.1, np.nan], dtype=np.float32), "b": [1e-17, -2.5], "c": [[1, 2], []]})
    write_table(frame, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == 'a,b,c\n0.1,1e-17,"[1, 2]"\n,-2.5,[]\n'


def test_carriage_returns_in_ids_texts_and_columns_survive_a_repair(tmp_path, monkeypatch):
    """As a user has them: in the file of train and of the failures."""
    monkeypatch.chdir(tmp_path)
    texts_project(tmp_path)
    for name in ("train", "test"):
        rows = pd.read_csv(f"{name}.csv", dtype=str, keep_default_na=False)
        rows["key"] = "\r" + rows["key"]
        rows["note"] = "=1+1\rx"
        rows["review"] = rows["review"] + " \rmore"
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows))
            table.writeheader()
            table.writerows(rows.to_dict("records"))
    assert amends("identify", "-o", "run", "-q") == 0
    causes = read_table(tmp_path / "run/causes.csv", ("index",), dtype=str, keep_default_na=False)
    assert len(causes) == 240
    assert set(causes["note"]) == {"=1+1\rx"}
    causes.loc[:40, "decision"] = "remove"
    write_table(causes, tmp_path / "run/causes.csv")
    assert amends("treat", "run", "--approved", "-q", "--no-learn") == 0
    assert amends("verify", "run") == 0
    assert amends("export", "run", "--to", "csv", "-o", "clean.csv") == 0
    with (tmp_path / "clean.csv").open(newline="") as file:
        kept = list(csv.DictReader(file))
    assert {len(row) for row in kept} == {5}
    assert {row["note"] for row in kept} == {"=1+1\rx"}, "cleaned data is the user's own, word for word"
