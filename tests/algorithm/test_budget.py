"""What a repair will cost, before it is made."""

from __future__ import annotations

import pytest

import amends
from amends.algorithm import budget
from amends.errors import BadInput
from amends.settings import BUDGETS, Settings
from tests.conftest import classification, factor
from tests.worlds import cheaply


def test_what_a_repair_will_cost_grows_with_what_is_left_to_choose():
    for large in (False, True):
        of = [Settings.of(budget, large) for budget in BUDGETS]
        for settings in of:
            curve, given = (budget.fits(settings, 2, asked, True) for asked in (False, True))
            assert given[0] <= curve[0]
            assert given[1] == curve[1] > 0
            assert budget.fits(settings, 2, False, False) == (curve[0], 0)
        quick, usual, thorough = (sum(budget.fits(settings, 2, False, True)) for settings in of)
        assert quick < usual <= thorough
    size = budget.Size(1000, 200, 800)
    quick, usual, thorough = (budget.search(Settings.of(name), size) for name in BUDGETS)
    assert quick < usual < thorough
    assert budget.search(Settings.of("thorough", large=True), size) < thorough


def test_seconds_are_the_largest_budget_that_should_end_in_time(monkeypatch):
    x, y, network = classification()
    given = {"train": factor(network, x, y)}
    costs = {"quick": 1, "default": 10, "thorough": 99}
    monkeypatch.setattr(budget, "seconds", lambda given, default, each: costs[default.budget])
    assert [budget.within(s, given) for s in (1, 12.5, 100)] == ["quick", "default", "thorough"]
    with pytest.warns(
        UserWarning, match="^0.5 seconds are not enough; budget; the smallest repair is made, which takes about 1 sec"
    ):
        assert budget.within(0.5, given) == "quick"
    assert budget.within("thorough", given) == "thorough"
    for wrong in (0, -1, True, None, float("nan")):
        with pytest.raises(BadInput, match="it must be a name or seconds; give quick, default, thorough, or a number"):
            budget.within(wrong, given)


@pytest.mark.parametrize("budget", ["quick", "default", "thorough"])
def test_what_a_budget_leaves_out_of_a_large_model(budget):
    """It is fitted once whatever the budget, and one rate of forgetting is one rate for it too."""
    made = Settings.of(budget, large=True)
    assert made.left_out(large=True) == {
        "quick": "the search has no grad_dot and no functional; fewer numbers to remove are tried; "
        "one rate of forgetting is tried"
    }.get(budget, "")
    assert bool(made.forgetting.rates) == bool(Settings.of(budget).forgetting.rates)


def test_without_right_examples_other_members_are_counted():
    quick, usual = (Settings.of(name) for name in ("quick", "default"))
    none, some = budget.Size(2000, 1000, 0), budget.Size(2000, 1000, 1000)
    for settings in (quick, usual):
        named = [part.name for part in budget.searching(settings, none)]
        assert named[:-1] == [f"trying {name}" for name in settings.identifying.edits.without_right]
        assert [part.name for part in budget.searching(settings, some)][:-1] == [
            f"trying {name}" for name in settings.identifying.edits.members
        ]


def test_a_repair_says_which_budget_it_was_made_with(planted, result):
    assert result.metrics["budget"] == "default"
    quick = amends.repair(*planted[:4], **cheaply(result, learn=False, budget="quick"))
    assert quick.metrics["budget"] == "quick"
    assert result.metrics["left_out"] == "", "of what the default does"
    assert quick.metrics["left_out"] == (
        "the search has no grad_dot and no functional; fewer numbers to remove are tried; "
        "one rate of forgetting is tried; the repair and its controls are fitted once"
    )
    assert f"left out with budget quick: {quick.metrics['left_out']}" in repr(quick)
    assert {row["refits"] for row in quick.metrics["curve"]} == {1}
    with pytest.raises(BadInput, match="budget is 'small'; there is none of that name; give quick, default, thorough"):
        amends.repair(*planted[:4], **cheaply(result, budget="small"))
