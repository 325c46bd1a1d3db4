"""A budget in seconds, as the command line and a config take it."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from amends.algorithm import budget, fitting
from tests.projects import amends

QUICKLY = ("--method", "grad_dot", "--top", "30", "--no-learn", "-q")


@pytest.fixture
def here(project, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(project, tmp_path / "project"))


def timed(monkeypatch, **costs):
    """Every repair takes the seconds of its budget."""
    monkeypatch.setattr(budget, "seconds", lambda given, default, *_: costs[default.budget])


@pytest.mark.usefixtures("here")
def test_seconds_are_the_budget_that_should_end_in_time(monkeypatch, capsys):
    timed(monkeypatch, quick=1, default=100, thorough=1000)
    for seconds, name in (("120", "default"), ("0.5", "quick")):
        assert amends("repair", "-o", seconds, *QUICKLY, "--budget", seconds, "--json") == 0
        assert json.loads(capsys.readouterr().out)["budget"] == name
        assert tomllib.loads(Path(seconds, "run.toml").read_text())["config"]["repair"]["budget"] == name
    Path("amends.toml").write_text(Path("amends.toml").read_text() + "budget = 120\n")
    assert amends("repair", "-o", "from the config", *QUICKLY, "--json") == 0
    assert json.loads(capsys.readouterr().out)["budget"] == "default"


@pytest.mark.usefixtures("here")
def test_a_repair_that_goes_on_is_of_the_budget_it_was_begun_with(monkeypatch, capsys):
    timed(monkeypatch, quick=1, default=100, thorough=1000)
    with monkeypatch.context() as stopped:
        stopped.setattr(fitting, "treated", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert amends("repair", "-o", "run", *QUICKLY, "--budget", "10") == 130
    timed(monkeypatch, quick=0, default=0, thorough=0)  # on a machine that is faster now
    assert amends("repair", "-o", "run", *QUICKLY, "--budget", "10", "--json") == 0
    assert json.loads(capsys.readouterr().out)["budget"] == "quick"


@pytest.mark.usefixtures("here")
def test_what_is_neither_a_name_nor_seconds_is_refused(capsys):
    assert amends("check", "--budget", "fast") == 2
    assert "'fast' is neither a number nor one of quick, default, thorough" in capsys.readouterr().err
    for said in ("-3", "nan", "0"):
        assert amends("check", "--budget", said) == 2
        assert "it must be a name or seconds; give quick, default, thorough, or a number" in capsys.readouterr().err
    text = Path("amends.toml").read_text()
    for value, told in (
        ('"quik"', "did you mean quick?"),
        ('"fast"', "choose one of quick, default, thorough, a number"),
        ("true", "expected one of quick, default, thorough, or a number"),
    ):
        Path("amends.toml").write_text(f"{text}budget = {value}\n")
        assert amends("check") == 2
        assert told in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_check_estimates_the_budget_that_would_be_taken(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr("amends.workflow.check.seconds", lambda given, default, *_: seen.append(default.budget) or 1.0)
    for said in ("quick", "thorough", "0.0001"):
        assert amends("check", "--budget", said, "--json") == 0
    assert seen == ["quick", "thorough", "quick"]
