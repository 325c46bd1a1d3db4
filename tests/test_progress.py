"""How much is done, and how long the rest should take."""

from __future__ import annotations

import re

import pytest

import amends
from amends.algorithm.ahead import of_treatment
from amends.algorithm.budget import Size, fits, of_search, seen
from amends.algorithm.options import Options
from amends.algorithm.problem import Problem
from amends.evidence.prepare import prepare
from amends.methods import Default
from amends.progress import Course, Part, Progress, between, duration
from tests.worlds import cheaply

PARTS = [Part("looking", "search", 2, 10.0), Part("trying", "fit", 4, 1.0), Part("judging", "fit", 2, 3.0)]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def course(rates):
    clock = Clock()
    return Course(PARTS, rates, clock), clock


def test_the_time_left_is_what_is_left_at_the_speed_that_was_measured():
    c, clock = course({})
    assert c.left() is None, "nothing is known yet"
    for name, steps, seconds in (("looking", 2, 20.0), ("trying", 4, 5.0), ("judging", 2, 15.0)):
        assert c.begin(name)
        for _ in range(steps):
            c.step()
            clock.now += seconds
    assert (c.number, c.total) == (8, 8)
    assert c.left() == 0


def test_a_guess_gives_way_to_what_was_measured():
    """Units take twice as long as was guessed: of 20 units of searching the guess counts as 5."""
    c, clock = course({"search": 1.0, "fit": 1.0})
    assert c.left() == 20 + 4 + 6
    c.begin("looking")
    c.step()
    clock.now += 20
    c.step()
    assert c.left() == pytest.approx(10 * (5 * 1 + 20) / (5 + 10) + 10)
    clock.now += 20
    c.begin("trying")
    assert c.left() == 10, "of what was measured of another kind nothing follows"


def test_a_part_left_early_leaves_nothing_and_one_begun_again_is_done_again():
    c, clock = course({"search": 1.0, "fit": 1.0})
    for name in ("looking", "trying"):
        c.begin(name)
        c.step()
        clock.now += 1
    c.begin("judging")
    assert c.number == 7
    assert c.left() == pytest.approx(6 * (2.5 * 1 + 1) / (2.5 + 1))
    c.begin("trying")
    assert c.number == 3
    assert not c.begin("resting")


def test_a_step_that_takes_longer_than_expected_is_about_to_end():
    c, clock = course({"search": 1.0, "fit": 1.0})
    c.begin("judging")
    c.step()
    c.step()
    clock.now += 100
    assert c.left() == 0


@pytest.mark.parametrize("needed", [False, True])
def test_steps_that_are_perhaps_needed_count_only_once_they_are(needed):
    """Two rates of forgetting where one does, and a repeat where luck is not ruled out: without them the time left is
    exact from the start, with them never more than what is shown as the most."""
    parts = [Part("rates", "fit", 1, 2.0, perhaps=1), Part("sizes", "fit", 3, 1.0), Part("repeat", "fit", 0, 3.0, 2)]
    clock = Clock()
    c = Course(parts, {"fit": 1.0}, clock)
    made = [("rates", 2.0), *[("rates", 2.0)] * needed, *[("sizes", 1.0)] * 3, *[("repeat", 3.0)] * 2 * needed]
    end, numbers, totals = sum(seconds for _, seconds in made), [], []
    assert (c.left(), c.left(perhaps=True)) == (5, 13)
    for name, seconds in made:
        c.begin(name)
        c.step()
        left = end - clock.now
        assert c.left() <= left <= c.left(perhaps=True)
        if not needed:
            assert c.left() == pytest.approx(left)
        if name == "repeat":
            assert c.left() == c.left(perhaps=True) == pytest.approx(left), "now it is known"
        numbers.append(c.number)
        totals.append(c.total)
        clock.now += seconds
    assert numbers == list(range(1, len(made) + 1))
    assert totals == ([4, 5, 5, 5, 5, 7, 7] if needed else [4] * 4)


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [(5, 5.2, "5 seconds"), (1, 20, "1 to 20 seconds"), (80, 200, "80 seconds to 3 minutes"), (5, 0.2, "5 seconds")],
)
def test_two_durations_are_words(least, most, words):
    assert between(least, max(least, most)) == words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "1 second"), (40.4, "40 seconds"), (100, "2 minutes"), (5399, "90 minutes"), (9000, "2.5 hours")],
)
def test_durations_are_words(seconds, said):
    assert duration(seconds) == said


def test_a_repair_says_in_a_few_lines_how_far_it_is(planted, capsys):
    amends.repair(*planted[:4], progress=True)
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: ")]
    shown = [re.fullmatch(r"(\d+) of (\d+): (.+); about (.+) left", line) for line in lines]
    assert all(shown), lines
    numbers = [int(m[1]) for m in shown if m]
    assert numbers == sorted(numbers)
    assert numbers[0] == 1
    totals = [int(m[2]) for m in shown if m]
    assert totals == sorted(totals), "more only where more turns out to be needed"
    assert numbers[-1] == totals[-1]
    assert 8 <= len(lines) <= 15, "a line for each part, not for each fit"


@pytest.mark.parametrize("shown", [True, False])
def test_everything_a_repair_announces_is_in_its_plan(planted, monkeypatch, shown):
    """Whoever gives a part of the work another name has to tell the plan; also where no number of wrong labels is
    shown."""
    said, made = [], []
    if not shown:
        monkeypatch.setattr("amends.algorithm.identify.Influence.wrong", 0)
    monkeypatch.setattr(Progress, "say", lambda self, what: said.append(what))
    monkeypatch.setattr(Progress, "plan", lambda self, parts, rates: made.extend(p.name for p in parts))
    amends.repair(*planted[:4], progress=True)
    assert set(said) <= set(made)
    assert len(said) >= 4


def test_as_many_fits_are_made_as_were_planned(planted, result, monkeypatch):
    """Where the size is given and luck is not ruled out, the plan holds to the fit."""
    fits, made = [], []
    monkeypatch.setattr(Progress, "counter", lambda self, what: fits.append(what) or (lambda i: None))
    monkeypatch.setattr(Progress, "plan", lambda self, parts, rates: made.extend(parts))
    treat_with = amends.methods.fine_tune(epochs=2)
    amends.repair(*planted[:4], **cheaply(result, learn=False, treat_with=treat_with, remove=8), progress=True)
    assert sum(p.steps + p.perhaps for p in made) == len(fits) == 6


@pytest.mark.parametrize("budget", ["quick", "default", "thorough"])
def test_the_plan_costs_what_the_estimate_says(planted, budget):
    model, train, failures, remaining, _ = planted
    given = prepare(model, None, None, 256, train=train, failures=failures, remaining=remaining)
    problem = Problem.of(given, Options(budget=budget))
    size = Size(300, 2 * len(problem.parts[0].query), 2 * len(problem.parts[0].guard))
    parts = of_treatment(problem.plan, given["train"], given["failures"], size)
    usual = Default(budget).treating(examples=300).editor.climb.epochs
    plain, learning = fits(problem.plan.settings, len(problem.plan.alternatives), False, True)
    expected = usual * (plain * 300 + learning * seen(problem.plan.settings, size))
    assert sum((p.steps + p.perhaps) * p.cost for p in parts) == pytest.approx(expected)
    names = [p.name for p in of_search(Default(budget), given["train"], 40, 200)]
    assert [n.removeprefix("trying ") for n in names[:-1]] == list(Default(budget).identifying(True))


def test_on_a_terminal_one_line_changes():
    class Bar:
        shown: list[str] = []  # noqa: RUF012

        def update(self, task, description):
            self.shown.append(description)

    progress = Progress(bar=Bar())
    progress.plan(PARTS, {"search": 1.0, "fit": 1.0})
    progress.say("looking")
    count = progress.counter("line 3")
    count(6)
    assert Bar.shown[-1] == "1 of 8: looking, line 3, step 7; about 30 seconds left"


def test_nothing_is_measured_where_nobody_looks(planted, result, monkeypatch):
    monkeypatch.setattr("amends.algorithm.ahead.step", lambda *_: pytest.fail("measured"))
    amends.repair(*planted[:4], **cheaply(result, learn=False, treat_with=amends.methods.fine_tune(epochs=1)))
