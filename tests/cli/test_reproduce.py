"""`amends reproduce` says what there is, goes on where it was, and needs a checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amends.cli import reproduce
from amends.cli.app import run


def test_the_list_names_every_experiment(capsys):
    from experiments import ITEMS

    assert run(["reproduce", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(ITEMS)
    assert run(["reproduce", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ITEMS


def test_without_a_checkout_it_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(reproduce, "ROOT", tmp_path)
    for words in (["--list"], ["causes"]):
        assert run(["reproduce", *words]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "a checkout of the source" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "which experiment?"),
        (["cause"], "did you mean causes?"),
        (["causes"], "no mnist.npz"),
        (["causes", "--data", "nowhere"], "no mnist.npz; nowhere;"),
        (["causes", "--on", "digits", "--seeds", "one"], "--seeds is 'one'"),
        (["causes", "--on", "digits", "--method", "ewk"], "did you mean ewc?"),
        (["specificity", "--on", "digits", "--method", "1 called 2"], "no row '1 called 2'"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["reproduce", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_not_made_again(tmp_path, capsys):
    """A second method is added to the rows of the first; a third run computes nothing and writes nothing."""
    asked = ["reproduce", "annotation-noise", "--on", "digits", "-o", str(tmp_path)]
    table = tmp_path / "annotation-noise" / "digits" / "seed_0.csv"
    assert run([*asked, "--method", "random"]) == 0
    first = table.read_text()
    assert "seed 0: random" in capsys.readouterr().err
    assert run([*asked, "--method", "random", "--method", "oracle"]) == 0
    said = capsys.readouterr()
    assert "seed 0: oracle" in said.err
    assert "random" not in said.err
    assert table.read_text().startswith(first)
    before = table.stat().st_mtime_ns
    assert run([*asked, "--method", "random", "--method", "oracle"]) == 0
    assert table.stat().st_mtime_ns == before
    assert capsys.readouterr().out.splitlines()[0] == str(table)
    assert not list(Path(tmp_path).rglob("*.part"))


def test_a_damaged_table_is_named(tmp_path, capsys):
    table = tmp_path / "causes" / "digits" / "seed_0.csv"
    table.parent.mkdir(parents=True)
    table.write_text("seed,method\n0,ewc\n")
    assert run(["reproduce", "causes", "--on", "digits", "-o", str(tmp_path)]) == 2
    assert f"not a table of an experiment; {table}" in capsys.readouterr().err


def test_the_data_sets_are_those_of_the_experiments():
    from experiments.sets import SETS

    assert tuple(SETS) == reproduce.ON
