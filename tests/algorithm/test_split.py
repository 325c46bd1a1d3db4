"""Which failures are searched with and which judge, group by group."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import amends
from amends.algorithm.split import split_of
from amends.errors import BadInput
from amends.evidence.prepare import prepare
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


def test_right_examples_with_many_copies_are_shared_between_the_halves():
    net, train, failures, (x, y) = lines()
    of_one = torch.nonzero(y == y.mode().values).flatten()[:4]
    often = of_one.repeat_interleave(torch.tensor([60, 55, 50, 45]))
    right = torch.cat([x, x[often]]), torch.cat([y, y[often]])
    given = prepare(net, None, None, 256, train=train, failures=failures, remaining=right)
    for seed in range(8):
        whole, _ = split_of(given, amends.Groups(), 0.5, seed)
        assert abs(len(whole.guard) - len(whole.judge)) <= 1
        assert (whole.guard >= len(x)).sum() == 105


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
