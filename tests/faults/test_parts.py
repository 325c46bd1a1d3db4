"""Cases shared out over processes are each tried once, whatever happens to one of them."""

from __future__ import annotations

import os
import time

import pytest

from tests.faults.parts import Kind, Outcome, Part, shared


def working(at=None, harm=lambda: None):
    """Ten cases; at one of them something happens."""

    def work(part):
        for number, _ in part.mine(range(part.count)):
            if number == at:
                harm()
            yield Outcome(number, "even" if number % 2 == 0 else "odd")

    return Kind(work, 10, "cases", limit=1)


def tried(kind, jobs=3, seconds=60.0):
    return shared("some", kind, [Part(k, jobs, 10) for k in range(jobs)], seconds)


@pytest.mark.parametrize("jobs", [1, 3, 12])
def test_every_case_is_tried_once(jobs, capsys):
    tally = tried(working(), jobs)
    assert (tally.tried, len(tally.keys), tally.wrong) == (10, 10, [])
    assert tally.ways == {"even": 5, "odd": 5}
    assert capsys.readouterr().out.startswith("some: 10 of 10 cases; even: 5; odd: 5")


@pytest.mark.parametrize(("harm", "code"), [(lambda: os._exit(9), 9), (lambda: time.sleep(30), -14)])
def test_a_case_that_kills_its_process_or_hangs_is_one_that_went_wrong(harm, code, capsys):
    tally = tried(working(4, harm))
    assert tally.tried == len(tally.keys) == 10
    assert tally.wrong == [f"case 4: its process died with {code}"]
    assert "9 of 10 cases" in capsys.readouterr().out


def test_what_takes_too_long_is_cut_off_and_says_how_far_it_was(capsys):
    tally = tried(working(4, lambda: time.sleep(30))._replace(limit=60), seconds=1.0)
    assert tally.tried == 8  # all but 4, and 7 behind it
    assert "cut off after 1 s" in capsys.readouterr().out
