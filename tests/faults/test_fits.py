"""Fits are kept as they are made: what was stopped makes only the others, and ends with the same bytes."""

from __future__ import annotations

import re
import shutil

import pytest

from amends.algorithm import fitting
from amends.runs import manifest
from amends.workflow import fits
from tests.faults.killing import contents
from tests.projects import amends

QUICK = ("--method", "grad_dot", "--no-learn", "-q")
SAME = ("metrics.json", "causes.csv", "curve.csv", "failures.csv", "repaired/model.safetensors")


@pytest.fixture
def counted(monkeypatch):
    """Every fit that is made; the one of this number is stopped, as by Ctrl-C."""
    made, real = [], fitting.treated

    def treated(train, causes, *rest):
        made.append(len(causes))
        if len(made) == counted.stop:
            raise KeyboardInterrupt
        return real(train, causes, *rest)

    def counted(stop=None):
        made.clear()
        counted.stop = stop
        return made

    monkeypatch.setattr(fitting, "treated", treated)
    monkeypatch.setattr(fits, "SHORT", 0.0)
    return counted


def test_a_repair_that_was_stopped_makes_no_fit_twice(project, tmp_path, monkeypatch, counted):
    monkeypatch.chdir(project)
    made = counted()
    assert amends("repair", "-o", tmp_path / "whole", *QUICK) == 0
    total = len(made)
    assert not (tmp_path / "whole/fits").exists(), "at the end they go"
    for stop in (2, total // 2, total):
        out = tmp_path / f"stopped {stop}"
        counted(stop)
        assert amends("repair", "-o", out, *QUICK) == 130
        assert len(list((out / "fits").iterdir())) == stop - 1
        manifest.verify(out)
        made = counted()
        assert amends("repair", "-o", out, *QUICK) == 0
        assert len(made) == total - stop + 1
        both = [contents(f) for f in (tmp_path / "whole", out)]
        assert all(both[0][name] == both[1][name] for name in SAME)
        assert both[0].keys() == both[1].keys()


def test_fits_of_another_treatment_are_not_taken(project, tmp_path, monkeypatch, counted):
    monkeypatch.chdir(project)
    assert amends("identify", "-o", tmp_path / "run", "-q", "--method", "grad_dot") == 0
    counted(3)
    assert amends("treat", tmp_path / "run", "--top", 30, "--no-learn", "-q") == 130
    made = counted()
    assert amends("treat", tmp_path / "run", "--top", 31, "--no-learn", "-q") == 0
    other = list(made)
    made = counted()
    assert amends("identify", "-o", tmp_path / "again", "-q", "--method", "grad_dot") == 0
    assert amends("treat", tmp_path / "again", "--top", 31, "--no-learn", "-q") == 0
    assert made == other, "every fit anew"
    assert (tmp_path / "run/metrics.json").read_bytes() == (tmp_path / "again/metrics.json").read_bytes()


def test_what_is_made_again_as_fast_is_not_kept(project, tmp_path, monkeypatch, counted):
    monkeypatch.chdir(project)
    monkeypatch.setattr(fits, "SHORT", 60.0)
    counted(4)
    assert amends("repair", "-o", tmp_path / "run", *QUICK) == 130
    assert not (tmp_path / "run/fits").exists()


@pytest.mark.parametrize("verb", ["identify", "repair"])
def test_a_disk_that_is_nearly_full_is_known_before_anything_is_computed(project, tmp_path, monkeypatch, capsys, verb):
    monkeypatch.chdir(project)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 2**22, 2**22))
    monkeypatch.setattr("amends.algorithm.problem.Problem.search", lambda *_: pytest.fail("computed"))
    assert amends(verb, "-o", tmp_path / "run", "-q") == 5
    said = capsys.readouterr().err
    assert re.search(r"error: about \d+ MB are needed, and 4 MB are free; .*run; free some space", said), said
    assert not (tmp_path / "run").exists()
