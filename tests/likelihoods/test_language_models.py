"""A tiny language model: its curvature and anchors, and a whole repair."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import amends
from amends.curvature import CG, GGN, Dense, Diagonal, Sampled
from amends.errors import BadInput
from amends.evaluation.predictions import predicted, right
from amends.evaluation.rankings import average_precision
from amends.evidence.network import Network
from amends.evidence.params import flatten
from amends.likelihoods import Custom, Tokens, as_likelihood, asked
from amends.posteriors import Anchored
from tests.conftest import factor
from tests.likelihoods.languages import Language, language, sentences


def test_the_fisher_of_a_language_model():
    """With one token asked it is a sum over the vocabulary: exact by the metric, met by draws."""
    network = Network.of(language(), Tokens())
    x, y = sentences(2)
    y[:, 1:3] = -100
    data = factor(network, {"input_ids": x}, y, batch=1)
    chance = data.outputs(network.params)[:, 2].softmax(-1)
    exact = torch.zeros(sum(p.numel() for p in network.params.values()), dtype=torch.float64)
    for token in range(6):
        for i in range(2):
            said = torch.where(y[i : i + 1] == -100, -100, token)
            _, grad = factor(network, {"input_ids": x[i : i + 1]}, said).value_and_grad(network.params)
            exact += chance[i, token] * flatten(grad) ** 2
    assert_close(CG(GGN(), prior=1e-12)(data, network.params).dense().diagonal(), exact)
    drawn = flatten(Diagonal(Sampled(400))(data, network.params).data)
    assert_close(drawn, exact, rtol=0.25, atol=0.02 * float(exact.max()))  # 1/√400 is 0.05
    some = Sampled(8)
    dense = Dense(some)(data, network.params).data.diagonal()
    assert_close(dense, flatten(Diagonal(some)(data, network.params).data))
    four = Diagonal(Sampled(4))(data, network.params).data
    assert_close(Diagonal(GGN())(data, network.params).data, four)


def test_an_anchor_on_sequences_does_not_move_the_model_and_counts_asked_places_only():
    network = Network.of(language(), Tokens())
    x, y = sentences()
    data = factor(network, {"input_ids": x}, y, batch=3)
    held = Anchored(network.params, inputs=data).times(data[:0])[-1]
    value, grad = held.value_and_grad(network.params)
    assert all(g.abs().max() < 1e-12 for g in grad.values())
    outputs = data.outputs(network.params)
    by_hand = Tokens()(outputs, asked(Tokens(), y).belief(outputs)).sum()
    assert abs(value - float(by_hand)) < 1e-10
    assert type(held[:2]) is type(held)


@pytest.fixture(scope="module")
def wrong():
    """The last token but one decides the last; in 24 training sequences with a 0 there, it does so wrongly. Long
    enough that few sequences are the same."""
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(0)

    def some(n):
        x = torch.randint(0, 3, (n, 6), generator=g)
        x[:, -1] = x[:, -2] + 3
        return x

    def targets(x):
        y = torch.full_like(x, -100)
        y[:, -1] = x[:, -1]
        return y

    train, evaluation = some(90), some(120)
    bad = torch.nonzero(train[:, -2] == 0)[:24, 0]
    train[bad, -1] = 5
    torch.manual_seed(0)
    model = Language(places=6).float()
    optimiser = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(150):
        loss = -Tokens()(model(train), targets(train)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        fine = Tokens().right(model(evaluation), targets(evaluation))
    truth = np.zeros(90, dtype=bool)
    truth[bad.numpy()] = True
    sets = [({"input_ids": x}, targets(x)) for x in (train, evaluation[~fine], evaluation[fine])]
    return model, *sets, truth


@pytest.mark.parametrize("method", ["grad_dot", "ewc", "kfac_ewc", "functional"])
def test_methods_find_the_sequences_behind_the_failures(wrong, method):
    model, train, failures, remaining, truth = wrong
    influence = amends.identify(
        model, train, failures, remaining=remaining, method=getattr(amends.methods, method)(), likelihood=Tokens()
    )
    assert average_precision(influence.scores, truth) > 0.8


def test_a_whole_repair_of_a_language_model(wrong):
    model, train, failures, remaining, truth = wrong
    treat_with = amends.methods.ewc()  # what fits all of its data so well hardly changes as it trains further
    given = {"likelihood": Tokens(), "seed": 1, "holdout": 0.7, "treat_with": treat_with}
    result = amends.repair(model, train, failures, remaining, **given)
    assert result.verdict == "repaired", result
    assert truth[result.removed].mean() > 0.6
    causes = result.causes
    assert causes["given"].iloc[0] == [5]  # the asked token alone
    assert causes["predicted_after"].iloc[0] == [3]
    assert causes["p_given"].between(0, 1).all()
    assert causes["group"].iloc[:20].eq("all").mean() > 0.9  # a few may conflict with no failure
    metrics = result.metrics
    assert metrics["classes"] == {}
    assert metrics["calibration"] is None
    assert all(h["refused"] == "" for h in metrics["identified_with"])
    named = amends.repair(
        model, train, failures, remaining, likelihood=Tokens(), identify_with=amends.methods.grad_dot(), remove=24,
        learn=False, group_by="clusters",
    )  # fmt: skip
    assert named.metrics["removed"] in (0, 24)


def test_predictions_stand_only_where_something_is_asked(wrong):
    model, train, _, _, _ = wrong
    network = Network.of(model, Tokens())
    data = factor(network, *train, batch=32)
    assert (predicted(data, network.params)[:, :3] == -100).all()
    assert right(data, network.params).dtype == bool
    assert right(data[:0], network.params).shape == (0,)


def test_what_cannot_take_sequences_says_so(wrong):
    model, train, failures, remaining, _ = wrong
    for method in (amends.methods.ogd(), amends.methods.functional(memorable=5)):
        with pytest.raises(BadInput):
            amends.identify(model, train, failures, remaining=remaining, method=method, likelihood=Tokens())
    with pytest.raises(BadInput, match=r"expected \[batch, classes\]"):
        amends.identify(model, train, failures)


def test_a_loss_of_ones_own_over_tokens(wrong):
    model, train, failures, _, truth = wrong
    mine = Custom(lambda o, t: Tokens()(o, t) / 2, like=Tokens())
    assert as_likelihood(mine) is mine
    influence = amends.identify(model, train, failures, method=amends.methods.ewc(), likelihood=mine)
    assert average_precision(influence.scores, truth) > 0.8
