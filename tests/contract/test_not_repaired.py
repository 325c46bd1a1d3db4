"""Where nothing can be repaired, the model stays as it was and the reason is said."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import amends


def test_when_it_does_not_help_nothing_changes(digits):
    """Failures with random labels have no cause in the data."""
    net, train, _, remaining, _ = digits
    x = remaining[0][:40]
    with torch.no_grad():
        nonsense = (net(x).argmax(1) + torch.arange(40) % 9 + 1) % 10
    result = amends.repair(net, train, (x, nonsense), (remaining[0][40:], remaining[1][40:]))
    assert result.verdict == "not repaired"
    assert result.metrics["removed"] == 0
    assert len(result.causes) == len(train[0])
    assert set(result.causes["decision"]) == {""}
    assert torch.equal(result.model[0].weight, net[0].weight)


def test_random_scores_do_not_repair(digits):
    """More training fixes some failures whatever is removed; the verdict looks at the controls."""
    net, train, failures, remaining, _ = digits
    for seed in range(3):
        result = amends.repair(net, train, failures, remaining, identify_with=amends.methods.random(seed), seed=seed)
        assert result.verdict == "not repaired", result
        assert result.metrics["removed"] == 0


def test_what_a_stranger_gets_wrong_is_said(digits):
    net, train, failures, remaining, _ = digits
    with pytest.raises(amends.errors.BadInput, match="swapped"):
        amends.repair(net, train, remaining, failures)
    with pytest.warns(UserWarning, match="look like probabilities"):
        amends.identify(nn.Sequential(net, nn.Softmax(1)), train, failures, method=amends.methods.loss())
    alone = amends.repair(net, train, failures)
    assert "still works" not in alone.metrics["reason"]
