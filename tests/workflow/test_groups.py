"""One kind of failure at a time."""

from __future__ import annotations

import amends


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
