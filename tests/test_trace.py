"""A recorded training run, and a replayed one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.errors import NonFinite
from amends.evidence import flatten
from amends.trace import Recorder, replay
from tests.conftest import factor, regression
from tests.exact import logistic
from tests.methods.worlds import matrix, pair, softmax


def test_a_recorder_sees_what_a_replay_does():
    train, _ = softmax()
    x, y = pair(train)
    model = nn.Linear(3, 3, dtype=torch.float64)
    model.load_state_dict(train.network.params)
    wanted = replay(train, train.network.params, epochs=2.5, batch=16, rate=0.3, seed=4)
    optimiser, recorder = torch.optim.SGD(model.parameters(), lr=0.3), Recorder(model)
    for step in wanted.steps:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x[step.positions]), y[step.positions]).backward()
        recorder(torch.as_tensor(step.positions), 0.3)
        optimiser.step()
    found = recorder.trace()
    found.check(train)
    assert [len(s.positions) for s in found.steps] == [16, 16, 8, 16, 16, 8, 16, 16]
    for a, b in zip(found.steps, wanted.steps, strict=True):
        assert_close(a.theta, b.theta, atol=1e-13, rtol=0)  # the mean and the sum over |S| round apart
        assert (a.positions == b.positions).all()
        assert a.rate == b.rate
    assert_close(found.end, wanted.end, atol=1e-13, rtol=0)


def test_a_recorder_takes_what_is_trained():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 3))
    model[0].requires_grad_(False)
    assert list(Recorder(model).trace().end) == ["1.weight", "1.bias", "2.weight", "2.bias"]


def test_an_epoch_is_every_example_once_and_a_seed_is_a_run():
    train, _ = softmax()
    before, rng = flatten(train.network.params).clone(), torch.get_rng_state()
    first, again, other = (replay(train, train.network.params, epochs=2, batch=16, seed=s) for s in (3, 3, 4))
    assert torch.equal(flatten(train.network.params), before)
    assert torch.equal(torch.get_rng_state(), rng)
    for epoch in (first.steps[:3], first.steps[3:]):
        assert sorted(np.concatenate([s.positions for s in epoch])) == list(range(40))
    assert (first.steps[0].positions != first.steps[3].positions).any()
    assert torch.equal(flatten(first.end), flatten(again.end))
    assert not torch.equal(flatten(first.end), flatten(other.end))


def test_leaving_out_keeps_the_batches_and_their_size():
    """Against the step written out: the others of the batch, still over its full size."""
    train, _ = softmax()
    whole = replay(train, train.network.params, epochs=0.5, batch=20, rate=0.3)
    (step,) = whole.steps
    left = step.positions[[2, 5]]
    part = replay(train, train.network.params, epochs=0.5, batch=20, rate=0.3, without=left)
    assert (part.steps[0].positions == step.positions).all()
    x, y = pair(train)
    rest = np.setdiff1d(step.positions, left)
    start = matrix(train.network.params)
    move = 0.3 / 20 * logistic.gradients(start, x[rest], y[rest]).sum(0).view_as(start)
    assert_close(matrix(part.end), start + move, atol=1e-13, rtol=0)


def test_a_run_that_leaves_the_numbers_is_refused():
    x, y, network = regression()
    with pytest.raises(NonFinite, match="lower the rate"):
        replay(factor(network, x, y), network.params, epochs=3, rate=1e200)
