"""`amends runs` and `amends report`: run folders, read and removed."""

from __future__ import annotations

import io
import json
import shutil

import amends as library
from amends.config.read import Config
from amends.runs.run import Run
from tests.projects import DONE, amends


def test_runs_are_listed_shown_and_compared(repaired, identified, tmp_path, capsys):
    shutil.copytree(repaired, tmp_path / "whole")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/run.toml").write_text("no = [")
    assert amends("runs", "ls", tmp_path, "--json") == 0
    told = capsys.readouterr()
    assert {r["state"] for r in json.loads(told.out)} == {"done", "identified"}
    assert "is damaged" in told.err
    assert amends("runs", "ls", tmp_path) == 0
    assert "repaired" in capsys.readouterr().out
    for folder in (repaired, identified):
        assert amends("runs", "show", folder) == 0
        assert "300 examples" in capsys.readouterr().out
        assert amends("runs", "show", folder, "--json") == 0
        assert json.loads(capsys.readouterr().out)["run"]["seed"] == 2
    assert amends("treat", identified, "--top", 30, "--no-learn", "-q") == 0
    capsys.readouterr()
    assert amends("runs", "diff", repaired, identified, "--json") == 0
    differences = json.loads(capsys.readouterr().out)
    assert differences["settings"]["config.repair.top"] == [None, 30]
    assert differences["causes"]["both"] <= 30
    assert amends("runs", "diff", repaired, identified) == 0
    assert "config.repair.top" in capsys.readouterr().out


def test_one_damaged_run_does_not_hide_the_others(repaired, tmp_path, capsys):
    for name in ("fine", "torn"):
        shutil.copytree(repaired, tmp_path / name)
    (tmp_path / "torn/metrics.json").write_text("{")
    assert amends("runs", "ls", tmp_path, "--json") == 0
    told = capsys.readouterr()
    assert [row["run"] for row in json.loads(told.out)] == [str(tmp_path / "fine")]
    assert "is damaged" in told.err


def test_a_run_is_removed_and_nothing_else_with_it(identified, capsys, monkeypatch):
    (identified / "mine.txt").write_text("notes")
    assert amends("runs", "rm", identified, "--yes") == 2
    assert "mine.txt, which amends did not write" in capsys.readouterr().err
    (identified / "mine.txt").unlink()
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert amends("runs", "rm", identified) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert amends("runs", "rm", identified) == 2
    assert "nobody answers; " in capsys.readouterr().err
    assert identified.exists()
    assert amends("runs", "rm", identified, "--yes") == 0
    assert not identified.exists()


def test_report_is_written_again_from_the_folder_alone(repaired, project, tmp_path, capsys):
    copy = shutil.copytree(repaired, tmp_path / "copy")
    original = (copy / "report.html").read_text()
    (copy / "report.html").unlink()
    assert amends("report", copy) == 0
    assert (copy / "report.html").read_text() == original
    assert capsys.readouterr().out.strip() == str(copy / "report.html")


def test_a_run_made_in_python_can_be_read_and_not_gone_on_with(planted, tmp_path, capsys):
    result = library.repair(*planted[:4], treat_with=library.methods.fine_tune(epochs=3), remove=40)
    result.save(tmp_path / "run")
    assert {p.name for p in (tmp_path / "run").iterdir()} == DONE
    assert isinstance(Run.open(tmp_path / "run").metrics, dict)
    assert amends("curve", tmp_path / "run") == 0
    assert amends("treat", tmp_path / "run", "-o", tmp_path / "more") == 2
    assert "made in Python" in capsys.readouterr().err


def test_config_reads_as_it_was_given(repaired):
    assert isinstance(Run.open(repaired).config, Config)
