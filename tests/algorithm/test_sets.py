"""The numbers of a repair, held against the model it hands back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import amends
from amends.algorithm.sets import Sets
from amends.data import split
from amends.evaluation.statistics import BeforeAfter, calibration, harmed, paired_together
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from tests.conftest import factor
from tests.worlds import QUICK, lines, right


@pytest.fixture(scope="module")
def judged(planted, result):
    """Positions that judged, and whether each is right before and after, by the models themselves."""
    net, _, failures, remaining, _ = planted
    holdout = np.setdiff1d(np.arange(len(failures[0])), result.rounds[0].search.part.query)
    judge = split(remaining[1].numpy(), 0.5, 0)[1]
    rows = {}
    for name, data, at in (("holdout", failures, holdout), ("remaining", remaining, judge)):
        rows[name] = at, *(right(model, data)[at] for model in (net, result.model))
    return rows


def test_the_numbers_are_those_of_the_model_handed_back(judged, result):
    metrics = result.metrics
    for name, (at, before, after) in judged.items():
        assert metrics[name] == {"before": before.mean(), "after": after.mean(), "n": len(at)}
        fixed, broken = int((~before & after).sum()), int((before & ~after).sum())
        exact = stats.binomtest(fixed, fixed + broken).pvalue if fixed + broken else 1.0
        assert metrics["p_values"][name] == pytest.approx(exact)
        assert metrics["changes"][name] == paired_together([(1.0, BeforeAfter(before, after))], 0)
        low, high = metrics["intervals"][name]
        assert 0 <= low <= after.mean() <= high <= 1
        low, high = metrics["changes"][name]
        assert low <= after.mean() - before.mean() <= high
    told = {*judged, "query", "overall"}
    assert set(metrics["p_values"]) == set(metrics["changes"]) == set(metrics["intervals"]) == told


def test_the_whole_has_an_interval_too(judged, result):
    """Failures and right examples are drawn apart, and weigh as they were given."""
    metrics, rng = result.metrics, np.random.default_rng(5)
    share = 77 / 500
    moved = np.zeros(4000)
    for weight, name in ((share, "holdout"), (1 - share, "remaining")):
        _, before, after = judged[name]
        drawn = rng.integers(len(before), size=(4000, len(before)))
        moved += weight * (after.astype(float) - before)[drawn].mean(1)
    assert metrics["changes"]["overall"] == pytest.approx(np.percentile(moved, [2.5, 97.5]), abs=0.005)
    low, high = metrics["intervals"]["overall"]
    assert low < metrics["overall"]["after"] < high
    fixed, broken = metrics["fixed"], metrics["newly_broken"]
    assert metrics["p_values"]["overall"] == pytest.approx(stats.binomtest(fixed, fixed + broken).pvalue)


def test_what_was_fixed_and_broken_is_named(judged, result):
    at, _, after = judged["holdout"]
    assert result.metrics["fixed_at"] == at[after].tolist()
    assert result.metrics["fixed"] == len(result.metrics["fixed_at"]) > 0
    at, _, after = judged["remaining"]
    assert result.metrics["broken_at"] == at[~after].tolist()
    assert result.metrics["newly_broken"] == len(result.metrics["broken_at"])


def counted(names, before, after):
    rows = {}
    for name in sorted(set(names)):
        was, now = (side[np.array(names) == name] for side in (before, after))
        fixed, broken = int((~was & now).sum()), int((was & ~now).sum())
        p = stats.binomtest(fixed, fixed + broken).pvalue if fixed + broken else 1.0
        rows[name] = pytest.approx(
            {"n": len(was), "before": was.mean(), "after": now.mean(), "fixed": fixed, "broken": broken, "p_value": p}
        )
    return rows


def test_every_group_and_every_class_is_told_by_itself(planted, judged, result):
    net, _, failures, remaining, _ = planted
    at, before, after = judged["holdout"]
    with torch.no_grad():
        said = net(failures[0]).argmax(1)
    names = [f"{int(failures[1][i])}→{int(said[i])}" for i in at]
    assert "1→7" in names
    assert result.metrics["groups"] == counted(names, before, after)
    classes = [
        str(int(data[1][i]))
        for data, name in ((failures, "holdout"), (remaining, "remaining"))
        for i in judged[name][0]
    ]
    both = (np.concatenate([judged[name][side] for name in judged]) for side in (1, 2))
    assert result.metrics["classes"] == counted(classes, *both)
    assert result.metrics["harmed"] == harmed(result.metrics["classes"])


def test_calibration_weighs_failures_and_right_ones_as_they_were_given(planted, judged, result):
    net, _, failures, remaining, _ = planted
    share = len(failures[0]) / (len(failures[0]) + len(remaining[0]))
    for when, model in (("before", net), ("after", result.model)):
        with torch.no_grad():
            sure = [model(data[0]).softmax(1).amax(1).numpy() for data in (failures, remaining)]
        means = [s[judged[name][0]].mean() for s, name in zip(sure, judged, strict=True)]
        calibration = result.metrics["calibration"][when]
        assert calibration["confidence"] == pytest.approx(share * means[0] + (1 - share) * means[1], rel=1e-5)
        assert set(calibration) == {"error", "confidence", "loss", "n"}
    assert result.metrics["calibration"]["before"] != result.metrics["calibration"]["after"]


def test_labels_of_two_kinds_are_judged_apart():
    net, train, failures, (x, y) = lines()
    soft = nn.functional.one_hot(y, 3).float()
    result = amends.repair(net, train, failures, (x, soft), **QUICK)
    assert result.metrics["calibration"] is None
    assert result.metrics["remaining"]["n"]


def test_an_example_that_is_in_two_sets_is_calibrated_once():
    """Its weight is then the sum of both, and it has one output."""
    torch.manual_seed(0)
    network = Network.of(nn.Linear(4, 3), Categorical())
    data = factor(network, torch.randn(50, 4), torch.randint(0, 3, (50,)))
    theta = {k: v + torch.randn_like(v) for k, v in network.params.items()}
    for failed, rest in ((data[:30], data[20:]), (data[:30], data[30:])):
        made = Sets(failed, failed, failed[:0], rest, failures=60, right_ones=90).outcome(theta).calibration()
        mixed = 60 / len(failed) * failed + 90 / len(rest) * rest
        assert made is not None
        assert made["before"] == pytest.approx(calibration(mixed, mixed.outputs(network.params)))
        assert made["after"] == pytest.approx(calibration(mixed, mixed.outputs(theta)))
        assert made["after"]["n"] == 50
