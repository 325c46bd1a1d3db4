"""A damaged file of a run is found before it is used: exit code 3, with its name."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from amends.runs import manifest
from tests import reported
from tests.faults.killing import contents
from tests.faults.stopped import interrupted
from tests.projects import amends

QUICK = ("--method", "grad_dot", "--no-learn", "-q")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return reported.saved(reported.texts(), tmp_path_factory.mktemp("saved") / "run")


def harmed(path, rng):
    """A flipped bit, or the end cut off."""
    data = bytearray(path.read_bytes())
    if rng.random() < 0.5 and len(data) > 1:
        del data[rng.integers(len(data)) :]
    else:
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    path.write_bytes(data)


def test_every_flip_and_cut_is_found(saved, tmp_path, capsys):
    """40 of each file that people do not edit; `make faults` makes 1,000."""
    rng = np.random.default_rng(0)
    run = shutil.copytree(saved, tmp_path / "run")
    names = [*manifest.read(run), manifest.NAME]
    assert {"repaired/model.safetensors", "failures.csv", "identified/scores.npz", "metrics.json"} <= set(names)
    for name in names:
        whole = (run / name).read_bytes()
        for _ in range(40):
            harmed(run / name, rng)
            assert amends("verify", run) == 3, name
            (run / name).write_bytes(whole)
    assert amends("verify", run) == 0
    said = capsys.readouterr().err
    assert "failures.csv is not as it was written" in said
    assert "Traceback" not in said


def test_what_a_stopped_repair_goes_on_from_is_looked_at(project, tmp_path, monkeypatch, capsys):
    """Every file of it, also each fit that it kept; `make faults` makes 1,000 of each."""
    rng = np.random.default_rng(1)
    monkeypatch.chdir(project)
    run = tmp_path / "run"
    interrupted(run, 2, *QUICK)
    names = [*manifest.read(run), manifest.NAME]
    assert sum(name.startswith("fits/") for name in names) == 2
    for name in names:
        whole = (run / name).read_bytes()
        for verb in 20 * [("verify", run)] + [("repair", "-o", run, *QUICK)]:
            harmed(run / name, rng)
            assert amends(*verb) == 3, name
            (run / name).write_bytes(whole)
    assert "Traceback" not in capsys.readouterr().err
    assert amends("repair", "-o", run, *QUICK) == 0


VERBS = [["runs", "show"], ["treat"], ["curve"], ["report"], ["export", "--to", "cleanlab"], ["verify"]]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("name", ["repaired/model.safetensors", "failures.csv", "identified/scores.npz"])
def test_no_verb_goes_on_with_it(verb, name, saved, tmp_path, capsys):
    run = shutil.copytree(saved, tmp_path / "run")
    path = run / name
    path.write_bytes(path.read_bytes()[:-1])
    before = contents(tmp_path)
    assert amends(*verb, run) == 3
    assert f"{name} is not as it was written; {path}; make the run again" in capsys.readouterr().err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("end", [b"", b"\x0b", b"\r\n", b"\n\n"])
def test_a_manifest_is_read_to_the_letter(end, saved, tmp_path):
    """Its last line break cut off, or made into something that also ends a line."""
    run = shutil.copytree(saved, tmp_path / "run")
    path = run / manifest.NAME
    path.write_bytes(path.read_bytes()[:-1] + end)
    assert amends("verify", run) == 3


def test_missing_and_strange_files_are_named(saved, tmp_path, capsys):
    run = shutil.copytree(saved, tmp_path / "run")
    (run / "mine.txt").write_text("a note")
    assert amends("verify", run) == 0
    assert "mine.txt was not written by amends" in capsys.readouterr().out
    (run / "curve.csv").unlink()
    (run / "causes.csv").unlink()
    assert amends("verify", run) == 3
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in said] == ["error: curve.csv is missing", "error: causes.csv is missing"]


def test_a_person_may_edit_the_causes_and_is_told_what_makes_no_sense(saved, tmp_path, capsys):
    run = shutil.copytree(saved, tmp_path / "run")
    path = run / "causes.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *lines[2:]]) + "\n")
    assert amends("verify", run) == 0
    head = lines[0].split(",").index("index")
    cells = lines[1].split(",")
    cells[head] = "99999"
    path.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")
    assert amends("verify", run) == 3
    assert "index is 99999, but train has" in capsys.readouterr().err


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(saved, tmp_path, capsys):
    import os

    run = shutil.copytree(saved, tmp_path / "run")
    (run / "metrics.json").unlink()
    os.mkfifo(run / "metrics.json")
    assert amends("verify", run) == 3
    assert "metrics.json is not as it was written" in capsys.readouterr().err
