"""TracIn against explicit gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.testing import assert_close

from amends.algorithm.identify import identify
from amends.methods import grad_dot
from amends.methods.library.tracin import TracIn
from amends.trace import replay
from tests.exact import logistic
from tests.methods.worlds import matrix, pair, softmax


def products(train, failures, theta):
    """∇log p(F)·∇log p(z), example by example."""
    (x, y), (fx, fy) = pair(train), pair(failures)
    w = matrix(theta)
    return logistic.gradients(w, x, y) @ logistic.gradients(w, fx, fy).sum(0)


def test_checkpoints_against_explicit_gradients():
    train, failures = softmax()
    a, b = ({k: v + s for k, v in train.network.params.items()} for s in (0.1, -0.3))
    b["weight"] = b["weight"].flip(0)
    states = [a, {"running_mean": torch.zeros(2), "bias": b["bias"], "weight": b["weight"]}]
    expected = -0.5 * products(train, failures, a) - 2 * products(train, failures, b)
    assert_close(TracIn(states, [0.5, 2.0])(train, failures), expected, atol=1e-12, rtol=0)
    expected = -products(train, failures, a) - products(train, failures, b)
    assert_close(TracIn(states)(train, failures), expected, atol=1e-12, rtol=0)


def test_a_trace_gives_the_starts_of_its_epochs_and_its_end():
    train, failures = softmax()
    trace = replay(train, train.network.params, epochs=4, batch=16, rate=0.3)
    steps = tuple(replace(s, rate=0.1 * (i + 1)) for i, s in enumerate(trace.steps))
    trace = replace(trace, steps=steps)
    for most, kept in ((10, (0, 3, 6, 9)), (3, (0, 6, 9)), (2, (0, 9))):
        expected = -1.2 * products(train, failures, trace.end)
        for i in kept:
            expected = expected - 0.1 * (i + 1) * products(train, failures, steps[i].theta)
        assert_close(TracIn(trace, most=most)(train, failures), expected, atol=1e-12, rtol=0)


def test_the_trained_model_alone_is_the_gradient_product():
    train, failures = softmax()
    model = nn.Linear(3, 3, dtype=torch.float64)
    model.load_state_dict(train.network.params)
    given = [(f.examples.x, f.examples.y) for f in (train, failures)]
    plain, alone = (identify(model, *given, method=m) for m in (grad_dot(), TracIn()))
    assert (plain.top(40) == alone.top(40)).all()
    np.testing.assert_allclose(alone.scores, -products(train, failures, train.network.params), rtol=1e-12)
