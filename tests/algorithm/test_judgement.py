"""What would do more good is offered."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from amends.algorithm.curve import CAUSES, NOTHING, CurvePoint, Fit, Limits
from amends.algorithm.judgement import Judgement, floor_to_two
from amends.algorithm.objective import Objective
from amends.algorithm.verdict import NOT, PARTLY
from amends.evaluation.statistics import BeforeAfter


def point(removed, holdout, remaining, by=CAUSES, kept=()):
    return CurvePoint(by, removed, (Fit({}, holdout, remaining, kept, holdout, remaining),))


def pair(before, after, n=100):
    """So many of a hundred right."""
    return BeforeAfter(np.arange(n) < before, np.arange(n) < after)


def offer(*points, failures=40, works=99, limits=None):
    """Of a repair that leaves so many of a hundred failures, and of what worked, right."""
    outcome = SimpleNamespace(judging=pair(0, failures), remaining=pair(100, works))
    sets = SimpleNamespace(judged_on="holdout")
    judged = Judgement(list(points), sets, Objective(0.5), limits or Limits())
    return judged.offer(SimpleNamespace(outcome=outcome, verdict=PARTLY))


def test_what_fixes_clearly_more_is_offered_with_the_cost_that_allows_it():
    """A fifth more of the failures, .29 more of what worked: worth it below a cost of .69."""
    said = offer(point(0, 0.1, 1.0, NOTHING), point(10, 0.4, 0.99), point(30, 0.6, 0.7))
    assert said == (
        "removing 30 would take accuracy on the holdout failures to 0.600 and on what worked to 0.700; "
        "set broken_costs=0.68 to allow it"
    )
    worth = Objective(0.5, 0.68)
    assert worth.worth(0.6, 0.7) > worth.worth(0.4, 0.99)


def test_a_little_more_is_no_offer():
    """The standard error of .4 of a hundred is .049."""
    assert offer(point(30, 0.49, 0.7)) == ""
    assert offer(point(30, 0.5, 0.7)) != ""


def test_what_costs_nothing_more_would_have_been_chosen():
    assert offer(point(30, 0.9, 0.99), point(40, 0.9, 1.0)) == ""


def test_what_today_s_costs_allow_is_no_offer():
    """It was tried, and was not shown to be better."""
    assert offer(point(30, 0.3, 0.99), failures=0, works=100) == ""


def test_a_floor_that_forbids_it_is_named():
    assert offer(point(30, 0.8, 0.931), limits=Limits(0.95, 0.95)).endswith("set floor=0.07 to allow it")


def test_all_that_forbids_it_is_named():
    """The floor, and that it is worth .650 where what is handed back is worth .695."""
    said = offer(point(30, 0.6, 0.7), limits=Limits(0.95, 0.95))
    assert said.endswith("set floor=0.3 and broken_costs=0.68 to allow it")


def test_exactly_at_the_floor_nothing_forbids_it():
    """.8 − .08 is a little more than .72 in a computer."""
    assert 0.8 - 0.08 > 0.72
    assert "floor" not in offer(point(30, 0.9, 0.72), limits=Limits(0.5, 0.8 - 0.08))


def test_what_takes_a_set_to_keep_below_its_limit_is_no_offer():
    limits = Limits(keep=(0.95,), names=("old",))
    assert offer(point(30, 0.6, 0.7, kept=(0.2,)), limits=limits) == ""
    assert offer(point(30, 0.6, 0.7, kept=(0.96,)), limits=limits) != ""


def test_without_right_examples_there_is_no_cost():
    outcome = SimpleNamespace(judging=pair(0, 40), remaining=None)
    judged = Judgement([point(30, 0.9, None)], SimpleNamespace(judged_on="holdout"), Objective(1.0), Limits())
    assert judged.offer(SimpleNamespace(outcome=outcome, verdict=NOT)) == ""


def training_on(fixed, works, verdict=NOT, limits=None, remaining=True, broken_costs=1.0, kept=()):
    """Of a model that was not repaired, where training on leaves so many of a hundred failures right, and so many of
    what worked."""

    def outcome(failures, right):
        return SimpleNamespace(judging=pair(0, failures), remaining=pair(100, right) if remaining else None, here={})

    fit = Fit({}, 0.0, None, kept, fixed / 100, works / 100 if remaining else None, outcome(fixed, works))
    points, sets = [CurvePoint(NOTHING, 0, (fit,))], SimpleNamespace(judged_on="holdout")
    judged = Judgement(points, sets, Objective(0.5, broken_costs), limits or Limits())
    return judged.offer(SimpleNamespace(outcome=outcome(0, 100), verdict=verdict))


def test_training_on_is_offered_where_nothing_was_repaired_and_it_does_good():
    assert training_on(30, 98) == (
        "training on with nothing removed would take accuracy on the holdout failures to 0.300 and on what worked to "
        "0.980; amends.treat(model, train, []) does that"
    )


def test_training_on_is_no_offer_where_it_does_no_good():
    """Five signs that are all the same have a chance of 1/32, four of 1/16."""
    assert training_on(5, 100) != ""
    assert training_on(4, 100) == ""
    assert training_on(30, 70) == ""
    assert training_on(30, 95, broken_costs=10.0) == ""
    assert training_on(30, 98, verdict=PARTLY) == ""
    assert training_on(30, 98, limits=Limits(0.99, 0.99)) == ""
    assert training_on(30, 98, remaining=False) == ""


def test_training_on_is_no_offer_where_a_set_to_keep_would_suffer():
    limits = Limits(keep=(0.9,), names=("old",))
    assert training_on(30, 98, limits=limits, kept=(0.95,)) != ""
    assert training_on(30, 98, limits=limits, kept=(0.85,)) == ""


@pytest.mark.parametrize(("cost", "shown"), [(0.6897, 0.68), (1.999, 1.9), (12.3, 12.0), (0.00457, 0.0045)])
def test_a_cost_is_shown_in_two_digits_and_never_above(cost, shown):
    assert floor_to_two(cost) == pytest.approx(shown)
    assert floor_to_two(cost) <= cost


def judged_point(removed, fixed, works, by=CAUSES):
    """With which of a hundred failures and of a hundred right examples are right."""
    outcome = SimpleNamespace(judging=pair(0, fixed), remaining=pair(100, works))
    return CurvePoint(by, removed, (Fit({}, 0.0, None, (), fixed / 100, works / 100, outcome),))


def test_what_is_offered_must_do_better_than_the_controls_at_that_cost():
    """At .68 thirty fixed more are worth 20 broken more; three more than the control are not, and may be luck."""
    size = judged_point(30, 60, 70)
    assert offer(judged_point(0, 10, 99, NOTHING), size) != ""
    assert offer(judged_point(0, 60, 99, NOTHING), size) == ""
    assert offer(judged_point(0, 38, 72, NOTHING), size) != ""
    assert offer(judged_point(0, 57, 72, NOTHING), size) == ""
