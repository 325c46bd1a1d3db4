"""What `identify` returns, and with which likelihoods."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.evaluation.rankings import average_precision


def test_influence(digits):
    net, train, failures, remaining, wrong = digits
    influence = amends.identify(net, train, failures, remaining=remaining)
    assert isinstance(influence.scores, np.ndarray)
    assert influence.scores.dtype == np.float64
    assert influence.scores.shape == (600,)
    top = influence.top(20)
    assert np.array_equal(influence.scores[top], np.sort(influence.scores)[::-1][:20])
    assert len(influence.fraction(0.1)) == 60
    assert (influence.scores[influence.positive()] > 0).all()
    assert average_precision(influence.scores, wrong) > 2 * wrong.mean()
    frame = influence.frame()
    assert list(frame.columns) == [
        "id", "index", "rank", "score", "given", "predicted", "predicted_after", "p_given", "p_given_after",
        "suggested", "group", "conflicts_with", "decision",
    ]  # fmt: skip
    assert frame["index"].tolist()[:20] == top.tolist()
    assert len(frame) == 600
    row = frame.iloc[0]
    assert row["given"] == train[1][row["index"]]
    with torch.no_grad():
        p = net(train[0][row["index"]][None]).softmax(1)[0, int(row["given"])]
    assert row["p_given"] == pytest.approx(float(p), rel=1e-4)
    assert len(row["conflicts_with"]) <= 5


def test_remaining_may_be_given_by_position(digits):
    net, train, failures, remaining, _ = digits
    by_position, by_name = (
        amends.identify(net, train, failures, *more, method=amends.methods.functional(), **named)
        for more, named in (((remaining,), {}), ((), {"remaining": remaining}))
    )
    assert np.array_equal(by_position.scores, by_name.scores)


def test_default_by_either_name(digits):
    net, train, failures, remaining, _ = digits
    a = amends.identify(net, train, failures, remaining=remaining)
    b = amends.identify(net, train, failures, remaining=remaining, method=amends.methods.default())
    assert np.array_equal(a.scores, b.scores)
    assert np.isfinite(amends.identify(net, train, failures).scores).all()  # no remaining: another default


def test_other_likelihoods():
    torch.manual_seed(0)
    x = torch.randn(30, 4)
    gaussian = amends.likelihoods.Gaussian(sigma=0.5)
    target = x.sum(1, keepdim=True)
    influence = amends.identify(nn.Linear(4, 1), (x, target), (x[:5], target[:5] + 3), likelihood=gaussian)
    assert np.isfinite(influence.scores).all()
    assert len(influence.frame()) == 30
    labels = (x[:, :3] > 0).float()
    influence = amends.identify(
        nn.Linear(4, 3), (x, labels), (x[:5], 1 - labels[:5]), likelihood=amends.likelihoods.Bernoulli()
    )
    assert np.isfinite(influence.scores).all()

    def smoothed(outputs, targets):
        return -nn.functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=0.1)

    y = torch.randint(0, 3, (30,))
    net = nn.Linear(4, 3)
    influence = amends.identify(net, (x, y), (x[:5], y[:5]), likelihood=smoothed, method=amends.methods.loss())
    with torch.no_grad():
        assert np.allclose(influence.scores, -smoothed(net(x), y).numpy(), rtol=1e-6)
    soft = amends.identify(net, (x, torch.eye(3)[y]), (x[:5], y[:5]), method=amends.methods.loss())
    hard = amends.identify(net, (x, y), (x[:5], y[:5]), method=amends.methods.loss())
    assert np.allclose(soft.scores, hard.scores, rtol=1e-5)


def test_a_user_s_own_loss_works_with_every_default(digits):
    """A prediction anchor must not ask the user's function for soft targets."""
    net, train, failures, remaining, _ = digits
    weights = torch.linspace(1, 2, 10)
    for mine in (
        lambda o, t: -nn.functional.nll_loss(o.log_softmax(-1), t, reduction="none"),
        lambda o, t: -weights[t] * nn.functional.cross_entropy(o, t, reduction="none"),
    ):
        influence = amends.identify(net, train, failures, remaining=remaining, likelihood=mine)
        assert np.isfinite(influence.scores).all()


def test_weighing_by_loss_keeps_the_sign_where_densities_exceed_one():
    torch.manual_seed(0)
    x = torch.randn(60, 4)
    y = x.sum(1, keepdim=True)
    net = nn.Linear(4, 1)
    with torch.no_grad():
        net.weight.fill_(1.0)
        net.bias.fill_(0.05)
    influence = amends.identify(net, (x, y), (x[:6], y[:6] - 0.3), likelihood=amends.likelihoods.Gaussian(sigma=0.1))
    assert (influence.before > 0).all()
    assert (influence.scores[influence.raw > 0] > 0).all()
    assert np.median(influence.scores[influence.raw < 0]) < 0
