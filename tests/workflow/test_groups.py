"""One kind of failure at a time."""

from __future__ import annotations

import numpy as np
import pytest

import amends
from amends.algorithm.split import split_of
from amends.evidence.prepare import prepare


def test_one_group_is_repaired_and_the_other_left_alone(planted):
    """The causes are the labels that stand against that group."""
    _net, (_, given), *_, wrong = planted
    result = amends.repair(*planted[:4], group_by=amends.Groups(only="1→7"), seed=3)
    m = result.metrics
    assert result.verdict != "not repaired", result
    assert m["rounds"][0]["groups"] == ["1→7"]
    assert m["holdout"]["n"] == m["groups"]["1→7"]["n"] < sum(row["n"] for row in m["groups"].values())
    assert m["groups"]["1→7"]["after"] > 0.4
    assert m["groups"]["1→7"]["after"] > m["groups"]["9→4"]["after"]
    assert (given[result.removed[:15]] == 7).double().mean() > 0.7
    assert (given[result.removed] == 7).double().mean() > 0.5
    assert wrong[result.removed].mean() > 0.5
    assert set(result.causes["group"]) <= {"1→7", ""}


def test_groups_are_repaired_in_the_order_given(planted):
    """Each from where the last ended, and what was removed stays removed."""
    options = {"remove": 10, "identify_with": amends.methods.ewc(), "learn": False}
    both = amends.repair(*planted[:4], group_by=amends.Groups(only=["9→4", "1→7"]), **options)
    first = amends.repair(*planted[:4], group_by=amends.Groups(only="9→4"), **options)
    assert [r["groups"] for r in both.metrics["rounds"]] == [["9→4"], ["1→7"]]
    assert both.metrics["rounds"][0] == first.metrics["rounds"][0]
    assert list(both.removed[: len(first.removed)]) == list(first.removed)
    assert len(set(both.removed)) == len(both.removed) == both.metrics["removed"] == len(both.causes)
    assert list(both.causes["rank"]) == list(range(1, len(both.removed) + 1))
    assert both.metrics["holdout"]["n"] == sum(both.metrics["groups"][g]["n"] for g in ("9→4", "1→7"))


def test_one_group_counts_by_how_many_failures_it_has(planted):
    """Of the failures and right examples that are given, not as if all failures were of this group."""
    net, train, failures, remaining, _ = planted
    given = prepare(net, None, None, 256, train=train, failures=failures, remaining=remaining)
    whole, (one,) = split_of(given, amends.Groups(only="9→4"), 0.5, 0)
    sets, group = whole.sets(given), one.sets(given)
    assert sets.asked == sets.share == group.share
    own = np.isin(np.arange(len(one.group)), one.already, invert=True) & (one.group == "9→4")
    assert group.asked == pytest.approx(own.sum() / (own.sum() + sets.right_ones))
    assert group.asked < sets.asked
    result = amends.repair(*planted[:4], group_by=amends.Groups(only="9→4"), remove=10, learn=False,
                           identify_with=amends.methods.grad_dot())  # fmt: skip
    assert result.metrics["overall"]["before"] == pytest.approx(1 - sets.share), "of all failures, as before"
