"""One member tried on halves: it is judged by what it was not shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends.committee import trying, weighing
from amends.curvature import GGN, Diagonal, Isotropic
from amends.curvature.diagonal import DiagonalPrecision
from amends.data import split
from amends.editors import Mode, Tangent
from amends.evaluation.predictions import groups, predicted
from amends.likelihoods import Gaussian
from amends.methods import Method
from amends.methods.ratio import first_order, label_part
from amends.posteriors import Gaussian as Normal
from amends.remember import Laplace
from amends.settings import DEFAULT
from tests.committee.worlds import Recording, chance, decided, evidence, ours
from tests.methods.test_ratio import edited


def test_a_probability_is_relative_to_the_most_a_likelihood_can_give():
    data, _, after = edited("gaussian")
    out = data.outputs(after.mean)
    expected = (-((out - data.examples.y) ** 2) / (2 * 0.3**2)).sum(1).exp()
    assert_close(trying._probability(data.network.likelihood, out, data.examples.y), expected.numpy())
    wide = replace(data, network=replace(data.network, likelihood=Gaussian(sigma=5.0)))
    assert_close(trying._probability(wide.network.likelihood, data.examples.y, data.examples.y), np.ones(30))
    data, _, after = edited("bernoulli")
    out, y = data.outputs(after.mean), data.examples.y
    both = torch.where(y > 0, out.sigmoid(), (-out).sigmoid()).prod(1)
    assert_close(trying._probability(data.network.likelihood, out, y), both.numpy())
    data, _, after = edited("soft")
    of, y = data.network.likelihood, data.examples.y
    assert_close(trying._probability(of, y.log(), y), np.ones(30))
    assert (trying._probability(of, data.outputs(after.mean), y) < 1).all()


@pytest.mark.usefixtures("alike")
def test_a_member_is_judged_by_what_it_was_not_shown(world):
    train, failures, remaining = evidence(*world[:4])
    member = Recording(ours(amends.methods.functional(0.05)))
    made = decided({"it": member.as_member()}, train, failures, remaining)
    one, two = (e.ids for e in member.shown)
    assert set(one) & set(two) == set()
    assert set(one) | set(two) == set(failures.ids)
    assert set(member.held[0]) & set(member.held[1]) == set()
    assert set(member.held[0]) | set(member.held[1]) == set(remaining.ids)
    named = groups(failures, predicted(failures, train.network.params))
    assert one.tolist() == failures.ids[split(named, 0.5, 0)[0]].tolist()
    assert all(float(e.weights.sum()) == pytest.approx(len(train)) for e in member.shown)
    on_failures, on_right = (
        sum(
            np.where(np.isin(data.ids, seen), 0, chance(data, end.mean))
            for seen, end in zip(past, member.ends, strict=True)
        )
        for data, past in ((failures, (one, two)), (remaining, member.held))
    )
    assert np.allclose(made.unseen, on_failures)
    assert made.members[0].unseen == pytest.approx((on_failures.mean() + on_right.mean()) / 2)
    assert made.members[0].weight == 1.0
    for name, value in made.edited.mean.items():
        assert_close(value, (member.ends[0].mean[name] + member.ends[1].mean[name]) / 2)
    assert_close(made.raw, first_order(made.start, made.edited, train))
    harm = [label_part(made.start, end, train) for end in member.ends]
    joined = weighing.joined([(0.5, one) for one in harm])
    assert_close(made.scores, torch.where(joined > 0, joined / joined.clamp(min=0).mean(), made.scores))
    assert ((made.scores > 0) == (torch.stack(harm) > 0).any(0)).all()


def test_how_far_a_tangent_goes_is_not_its_own_to_choose(world):
    train, failures, remaining = evidence(*world[:4])
    rows = [
        decided({"it": ours(Method(Laplace(Isotropic()), Tangent(gamma)))}, train, failures, remaining)
        for gamma in (1e-6, 1.0, 1e3)
    ]
    assert np.allclose(rows[0].unseen, rows[1].unseen, atol=1e-9)
    assert np.allclose(rows[2].unseen, rows[1].unseen, atol=1e-9)
    assert rows[1].unseen.mean() > 2 * chance(failures, train.network.params).mean()


def test_another_seed_gives_other_halves(world):
    one, same, other = (
        decided({"it": ours(amends.methods.grad_dot())}, *evidence(*world[:4]), seed=seed).unseen for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def one_sided():
    """Two classes, told apart by x₀ alone. All failures are of class 1, and x₁ is what they share."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(80) % 2
    x = torch.stack([(2.0 * y - 1) * (1 + torch.rand(80, generator=g)), torch.zeros(80)], 1).double()
    wrong = torch.stack([-0.5 - torch.rand(20, generator=g), 1 + torch.rand(20, generator=g)], 1).double()
    layer = nn.Linear(2, 2, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        layer.bias.zero_()
    return evidence(layer, (x[:40], y[:40]), (wrong, torch.ones(20, dtype=torch.long)), (x[40:], y[40:]))


def free(name, column):
    """An edit that moves this part of the parameters and no other."""

    def remember(data, remaining):
        stiff = {k: torch.full_like(v, 1e9) for k, v in data.network.params.items()}
        stiff[name][..., column] = 0.1
        return Normal(data.network.params, DiagonalPrecision(stiff), Diagonal(GGN()), len(data))

    return ours(Method(remember, Mode()))


def test_a_shift_of_the_bias_does_not_count_more_than_what_separates():
    """Too few right examples to say how high right labels score: what was unseen decides."""
    train, failures, remaining = one_sided()
    remaining = remaining[: DEFAULT.identifying.trials.enough_right - 1]
    bias, separates = free("bias", slice(None)), free("weight", 1)
    made = decided({"bias": bias, "separates": separates}, train, failures, remaining)
    by = {h.name: h for h in made.members}
    alone = decided({"bias": bias}, train, failures, remaining)
    assert alone.unseen.mean() > 0.95, "the shift does put the failures right"
    assert by["bias"].unseen < 0.8
    assert by["separates"].unseen > by["bias"].unseen + 0.1
    assert by["separates"].weight > 0.9
