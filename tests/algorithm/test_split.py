"""Which failures are searched with and which judge, group by group."""

from __future__ import annotations

import numpy as np
import pytest

import amends
from amends.errors import BadInput
from tests.worlds import QUICK, cheaply, lines


def test_another_seed_gives_another_split(planted, result):
    other = amends.repair(*planted[:4], **cheaply(result, seed=1, treat_with=amends.methods.fine_tune(epochs=1)))
    assert other.metrics["seed"] == 1
    assert set(other.rounds[0].search.part.query.tolist()) != set(result.rounds[0].search.part.query.tolist())
    assert len(other.rounds[0].search.part.query) == pytest.approx(len(result.rounds[0].search.part.query), abs=1)


def test_failures_may_be_grouped_by_clusters(planted, result):
    repair = amends.repair(*planted[:4], **cheaply(result, group_by="clusters"))
    names = set(repair.metrics["groups"])
    assert len(names) > 1
    assert names <= {f"cluster {i}" for i in range(1, 9)}
    assert sum(row["n"] for row in repair.metrics["groups"].values()) == repair.metrics["holdout"]["n"]


def test_another_word_for_groups_is_refused_in_one_line(planted):
    with pytest.raises(BadInput, match="group_by is 'nonsense'; it is no way to group; pass 'clusters'") as caught:
        amends.repair(*planted[:4], group_by="nonsense")
    assert "\n" not in str(caught.value)


def test_a_group_that_cannot_be_split_is_named():
    net, train, failures, remaining = lines()
    names = ["one"] + ["rest"] * 29
    with pytest.raises(BadInput, match=r"the group one has 1 failure, which cannot be split"):
        amends.repair(net, train, failures, remaining, group_by=amends.Groups(names, "one"), **QUICK)
    with pytest.raises(BadInput, match="no failure is in the group 'none'; group_by; choose from one, rest"):
        amends.repair(net, train, failures, remaining, group_by=amends.Groups(names, "none"), **QUICK)
    with pytest.raises(BadInput, match="each once"):
        amends.repair(net, train, failures, remaining, group_by=amends.Groups(names, ["rest", "rest"]), **QUICK)


def test_names_of_groups_may_be_numbers(planted, result):
    kinds = [i % 2 for i in range(len(planted[2][1]))]
    for only in (1, [1], np.array([1]), {1}):
        repair = amends.repair(*planted[:4], **cheaply(result, group_by=amends.Groups(kinds, only), learn=False))
        assert [r["groups"] for r in repair.metrics["rounds"]] == [["1"]]
