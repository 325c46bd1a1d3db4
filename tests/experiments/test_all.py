"""All experiments in one call: side by side they make the rows that each makes alone."""

from __future__ import annotations

import pytest

from experiments.all import Job, Office, jobs, main
from experiments.running import Plan, Rows, read

ASKED = ["--on", "digits", "--items", "annotation-noise", "causes", "--methods", "ewc", "random", "--sizes", "100"]


def values(path):
    """Seconds differ from run to run."""
    return sorted(row for row in read(path) if row.measure != "seconds")


def test_side_by_side_is_one_after_the_other(reproduced, capsys, tmp_path):
    with pytest.raises(SystemExit, match="0"):
        main([*ASKED, "-o", str(tmp_path), "--workers", "2"])
    for item in ("annotation-noise", "causes"):
        alone, _, _ = reproduced(item, capsys, "ewc", "random", remove=(100,))
        made = {row.method for row in read(tmp_path / item / "digits" / "seed_0.csv")}
        same = [row for row in values(alone / "seed_0.csv") if row.method in made and row.k in (0, 100)]
        assert same
        assert same == [row for row in values(tmp_path / item / "digits" / "seed_0.csv") if row.k in (0, 100)]
        assert (tmp_path / item / "digits" / "figure.png").stat().st_size > 1000
    with pytest.raises(SystemExit, match="0"):
        main([*ASKED, "-o", str(tmp_path), "--workers", "2"])
    assert "0 jobs, 2 workers" in capsys.readouterr().err


def test_no_time_is_no_rows(capsys, tmp_path):
    with pytest.raises(SystemExit, match="1"):
        main([*ASKED, "-o", str(tmp_path), "--workers", "1", "--limit", "0.01"])
    assert "2 jobs left" in capsys.readouterr().err


class Pipe(list):
    """A worker that only listens."""

    send = list.append
    __hash__ = object.__hash__


def test_who_does_what_next(tmp_path):
    """First what the paper compares; workers spread over networks, and stay with theirs."""
    plan = Plan("causes", "digits", out=tmp_path, seeds=(0, 1), methods=("random", "loss", "linear, gd"))
    found = jobs(plan, ("annotation-noise", "causes", "sample-efficiency", "trade-off"))
    assert [job.turn for job in found] == sorted(job.turn for job in found)
    assert found[0] == Job(("annotation-noise", "causes"), 0, "random")
    assert {job.turn for job in found if job.row == "loss"} == {3, 4}
    assert {job.turn for job in found if job.row == "linear, gd"} == {2, 5}
    office, (a, b) = Office(plan, list(found), print), (Pipe(), Pipe())
    for pipe in (a, b, a, b):
        office.give(pipe)
    assert [job.seed for job in a] in ([0, 0], [1, 1])
    assert {a[0].seed, b[0].seed} == {0, 1}
    assert len(office.todo) == len(found) - 4


def test_a_row_that_came_twice_is_stored_once(tmp_path):
    """Two workers may both make what every row stands beside."""
    office, pipe = Office(Plan("causes", "digits", out=tmp_path), [], print), Pipe()
    pipe.recv = lambda: ("rows", "causes", 0, "nothing removed", [(0, "holdout", 0.5)])
    office.hear(pipe)
    office.hear(pipe)
    assert len(Rows(tmp_path / "causes" / "digits", 0, 120).rows) == 1
