"""What `repair` returns, and what can be asked of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_model
from torch import nn

import amends


def test_repair_fixes_failures_it_did_not_search_with(result, digits):
    _, _, failures, remaining, wrong = digits
    metrics = result.metrics
    assert metrics["verdict"] in ("repaired", "partly repaired")
    for name in ("query", "holdout", "remaining", "overall"):
        assert {"before", "after", "n"} <= set(metrics[name])
    assert metrics["query"]["before"] == metrics["holdout"]["before"] == 0.0
    assert metrics["remaining"]["before"] == 1.0
    assert metrics["query"]["n"] + metrics["holdout"]["n"] == len(failures[0])
    assert abs(metrics["remaining"]["n"] - len(remaining[0]) / 2) <= 5
    assert metrics["fixed"] == round(metrics["holdout"]["after"] * metrics["holdout"]["n"])
    assert metrics["newly_broken"] == round((1 - metrics["remaining"]["after"]) * metrics["remaining"]["n"])
    assert metrics["removed"] == len(result.causes) == len(result.removed)
    share = len(failures[0]) / (len(failures[0]) + len(remaining[0]))
    mixed = share * metrics["holdout"]["after"] + (1 - share) * metrics["remaining"]["after"]
    assert metrics["overall"]["after"] == pytest.approx(mixed)
    assert metrics["overall"]["after"] > metrics["overall"]["before"]
    assert metrics["holdout"]["after"] > metrics["controls"]["nothing"]["holdout"]
    assert metrics["holdout"]["after"] > metrics["controls"]["random"]["holdout"]
    assert wrong[result.removed].mean() > 2 * wrong.mean()
    json.dumps(metrics)
    assert result.verdict in repr(result)


def test_the_causes_table_follows_the_repaired_model(result, digits):
    _, train, failures, _, _ = digits
    causes = result.causes
    assert (causes["decision"] == "remove").all()
    assert causes["rank"].tolist() == list(range(1, len(causes) + 1))
    at = causes["index"].to_numpy().copy()
    with torch.no_grad():
        after = result.model(train[0][at]).argmax(1).numpy()
    assert (causes["predicted_after"] == after).all()
    positions = {j for row in causes["conflicts_with"] for j in row}
    assert positions <= set(result.query_positions.tolist())
    assert max(positions) < len(failures[0])


def test_a_saved_run_loads_again(result, digits, tmp_path):
    result.save(tmp_path / "runs" / "digits")
    folder = tmp_path / "runs" / "digits"
    assert json.loads((folder / "metrics.json").read_text()) == json.loads(json.dumps(result.metrics))
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    load_model(net, str(folder / "repaired" / "model.safetensors"))
    assert torch.equal(net[0].weight, result.model[0].weight)
    assert len((folder / "causes.csv").read_text().splitlines()) == len(result.causes) + 1
    with pytest.raises(ValueError, match="the folder exists"):
        result.save(folder)
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["digits"]


def test_options_of_repair(digits):
    net, train, failures, remaining, _ = digits
    count = amends.repair(net, train, failures, remaining, remove=60)
    share = amends.repair(net, train, failures, remaining, remove=0.1)
    assert np.array_equal(count.influence.top(60), share.influence.top(60))
    assert count.metrics["curve"] == share.metrics["curve"]
    learned = amends.repair(net, train, failures, remaining, remove=60, learn=True)
    assert learned.metrics["query"]["after"] >= count.metrics["query"]["after"]
    alone = amends.repair(net, train, failures, remove=60)
    assert alone.metrics["remaining"] is None
    assert alone.metrics["newly_broken"] == 0
    kept = amends.repair(net, train, failures, remaining, remove=60, keep=[(train[0][:50], train[1][:50])])
    assert "keep[0]" in kept.metrics["keep"]
    strict = amends.repair(net, train, failures, remaining, remove=500, floor=0.0)
    assert strict.verdict == "not repaired"
    grouped = amends.repair(net, train, failures, remaining, remove=60, group_by=["a", "b"] * (len(failures[0]) // 2)
                            + ["a"] * (len(failures[0]) % 2))  # fmt: skip
    assert set(grouped.metrics["groups"]) == {"a", "b"}


def test_a_floor_counts_from_where_the_model_was(digits):
    net, train, failures, remaining, _ = digits
    mixed = tuple(np.concatenate([a, b[:15]]) for a, b in zip(remaining, failures, strict=True))
    result = amends.repair(net, train, tuple(f[15:] for f in failures), mixed, floor=0.03)
    assert result.metrics["remaining"]["before"] < 0.995
    assert result.verdict in ("repaired", "partly repaired"), result
    assert result.metrics["remaining"]["after"] >= result.metrics["remaining"]["before"] - 0.03


def test_keep_takes_part_in_the_choice_and_is_reported_as_it_is(digits):
    net, train, failures, remaining, _ = digits
    with torch.no_grad():
        stubborn = (failures[0], net(failures[0]).argmax(1))  # must stay as wrong as it is
    result = amends.repair(net, train, failures, remaining, keep=[stubborn], floor=0.05)
    assert result.verdict == "not repaired"
    assert result.metrics["keep"]["keep[0]"] == {"before": 1.0, "after": 1.0}


def test_several_labels_and_regression_can_be_repaired():
    torch.manual_seed(0)
    x = torch.randn(120, 4)
    labels = (x[:, :1] > 0).float()
    for likelihood, y, wrong in (
        (amends.likelihoods.Bernoulli(), labels, 1 - labels),
        (amends.likelihoods.Gaussian(0.5), x.sum(1, keepdim=True), x.sum(1, keepdim=True) + 5),
    ):
        net = nn.Linear(4, 1)
        result = amends.repair(net, (x, y), (x[:20], wrong[:20]), (x[20:60], y[20:60]), likelihood=likelihood, remove=5)
        assert {"query", "holdout", "remaining", "overall"} <= set(result.metrics)
        frame = result.influence.frame()
        given = frame.sort_values("index")["given"].to_numpy(dtype=float)
        assert np.allclose(given, y[:, 0].numpy(), atol=1e-6)


def test_in_inference_mode_and_in_half_precision(digits):
    net, train, failures, remaining, _ = digits
    with torch.inference_mode():
        assert np.isfinite(amends.identify(net, train, failures, method=amends.methods.ewc()).scores).all()
    half = nn.Sequential(nn.Linear(64, 10)).to(torch.bfloat16)
    result = amends.repair(half, train, failures, remaining, remove=10, anyway=True)
    assert result.model[0].weight.dtype == torch.bfloat16
