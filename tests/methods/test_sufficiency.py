"""Sufficiency against refitting with other labels, in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from amends.curvature import GGN, Dense, Kronecker
from amends.errors import BadInput
from amends.methods.library.sufficiency import Sufficiency, others
from tests.conftest import classification, factor, regression
from tests.exact import logistic
from tests.methods.worlds import gradient, world


def relabelled(copies, some=60):
    """What Sufficiency predicts, and what refitting with each other label does to log p(F).

    With each example so many times in D, and the ridge as many times as strong, θ̂ is the same and
    one example counts the less.
    """
    x, y, network = classification(n=300)
    x, y, ridge = x.repeat(copies, 1), y.repeat(copies), float(copies)
    g = torch.Generator().manual_seed(9)
    fx, fy = torch.randn(6, 3, generator=g, dtype=x.dtype), torch.randint(0, 3, (6,), generator=g)
    w = logistic.optimum(x, y, 3, ridge)
    network = replace(network, params={"weight": w[:, :-1].clone(), "bias": w[:, -1].clone()})
    predicted = Sufficiency(Dense(GGN(), prior=ridge))(factor(network, x, y), factor(network, fx, fy, "failures"))

    def fit(w):
        return float(sum(logistic.log_prob(w, a, b) for a, b in zip(fx, fy, strict=True)))

    actual = []
    for i in range(some):
        p = (w[:, :-1] @ x[i] + w[:, -1]).softmax(0)
        gain = 0.0
        for label in {0, 1, 2} - {int(y[i])}:
            changed = y.clone()
            changed[i] = label
            share = float(p[label] / (1 - p[y[i]]))
            gain += share * (fit(logistic.optimum(x, changed, 3, ridge, start=w)) - fit(w))
        actual.append(gain)
    return predicted[:some].numpy(), np.array(actual)


def test_sufficiency_predicts_refitting_with_another_label(capsys):
    """To first order: where an example counts a quarter as much, so does the relative error."""
    errors = []
    for copies in (1, 4):
        predicted, actual = relabelled(copies)
        correlation = float(np.corrcoef(predicted, actual)[0, 1])
        errors.append(float(np.abs(predicted - actual).max() / np.abs(actual).max()))
        with capsys.disabled():
            print(f"\n120 refits, 1 in {300 * copies} relabelled: correlation {correlation:.5f}, ", end="")
            print(f"largest error {errors[-1]:.1%} of the largest")
        assert correlation > 0.99
    assert errors[0] < 0.35
    assert errors[1] == pytest.approx(errors[0] / 4, rel=0.15)


def test_sufficiency_is_an_expectation_over_other_labels():
    """The definition, label by label, with a gradient for each."""
    train, failures, network = world(10)
    curvature = Kronecker(GGN(), prior=0.3)
    fx, fy = failures.examples.fetch(0, len(failures))
    gain = torch.linalg.solve(curvature(train, network.params).dense(), gradient(network, fx, fy))
    expected = []
    for i in range(len(train)):
        x, y = train.examples.fetch(i, i + 1)
        p = network.outputs(network.params, x)[0].softmax(0)
        terms = [
            p[c] / (1 - p[y[0]]) * (gain @ (gradient(network, x, torch.tensor([c])) - gradient(network, x, y)))
            for c in range(3)
            if c != int(y)
        ]
        expected.append(sum(terms))
    assert_close(Sufficiency(curvature)(train, failures), torch.stack(expected), atol=1e-12, rtol=1e-9)


def test_labels_as_probabilities_give_the_same_sufficiency():
    train, failures, network = world(10)
    x, y = train.examples.fetch(0, 10)
    soft = factor(network, x, torch.eye(3, dtype=torch.float64)[y])
    curvature = Kronecker(GGN(), prior=0.3)
    assert_close(Sufficiency(curvature)(soft, failures), Sufficiency(curvature)(train, failures))


def test_other_labels_share_what_is_left():
    outputs = torch.tensor([[0.0, 1.0, 2.0], [900.0, 0.0, 5.0], [30.0, 0.0, 5.0]], dtype=torch.float64)
    p = outputs.softmax(1)
    found = others(outputs, torch.tensor([2, 0, 0]))
    assert_close(found[0], torch.tensor([p[0, 0], p[0, 1], 0.0]) / (p[0, 0] + p[0, 1]))
    assert_close(found[1], torch.tensor([0.0, 0.5, 0.5], dtype=torch.float64))
    assert_close(found[2], torch.tensor([0.0, p[2, 1], p[2, 2]]) / (p[2, 1] + p[2, 2]))


def test_sufficiency_is_for_classes():
    x, y, network = regression()
    with pytest.raises(BadInput, match="sufficiency needs the likelihood Categorical, got Gaussian"):
        Sufficiency(Kronecker(GGN()))(factor(network, x, y), factor(network, x, y))
