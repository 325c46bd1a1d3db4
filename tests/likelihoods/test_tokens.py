"""Sequences of tokens: the likelihood against an independent loop, and a whole repair of a tiny language model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import hessian
from torch.testing import assert_close

import amends
from amends.committee import trying
from amends.curvature import CG, GGN, Dense, Diagonal, Sampled
from amends.editors.relabel import _as_seen
from amends.errors import BadInput
from amends.evaluation.predictions import predicted, right
from amends.evaluation.rankings import average_precision
from amends.evidence.network import Network
from amends.evidence.params import flatten
from amends.likelihoods import Custom, Likelihood, Tokens, as_likelihood, asked, probability, token_targets
from amends.nearness.conflicts import conflicts
from amends.nearness.neighbours import features
from amends.posteriors import Anchored
from tests.conftest import factor

OUT = torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
ASKED = torch.tensor([[-100, 1, 3, 0, 2], [0, -100, -100, 1, -100], [2, 2, -100, -100, 3]])


class Language(nn.Module):
    """Each token predicts the next by its embedding and its place: the smallest causal model."""

    def __init__(self, words=6, width=8, places=4):
        super().__init__()
        self.words, self.place = nn.Embedding(words, width), nn.Embedding(places, width)
        self.mix, self.leave = nn.Linear(width, width), nn.Linear(width, words, bias=False)
        self.leave.weight = self.words.weight

    def forward(self, input_ids):
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        word = self.words(input_ids)
        seen = word + self.place(positions) + word.cumsum(1) / 10
        return self.leave(torch.tanh(self.mix(seen)))


def language(seed=0):
    torch.manual_seed(seed)
    return Language().double()


def sentences(n=8, seed=1):
    x = torch.randint(0, 6, (n, 4), generator=torch.Generator().manual_seed(seed))
    y = x.clone()
    y[:, 0] = -100
    y[::2, 1] = -100
    return x, y


def test_nats_of_a_sequence_against_a_loop():
    assert isinstance(Tokens(), Likelihood)
    for i in range(3):
        total = 0.0
        for t in range(1, 5):
            if ASKED[i, t] != -100:
                p = torch.exp(OUT[i, t - 1]) / torch.exp(OUT[i, t - 1]).sum()
                total += math.log(float(p[ASKED[i, t]]))
        assert abs(float(Tokens()(OUT, ASKED)[i]) - total) < 1e-12
    shifted = nn.functional.cross_entropy(OUT[:, :-1].flatten(0, 1), ASKED[:, 1:].flatten(), reduction="none")
    assert_close(Tokens()(OUT, ASKED), -shifted.view(3, 4).sum(1))


def test_a_place_where_nothing_is_asked_says_nothing():
    leaf = OUT.clone().requires_grad_()
    grad = torch.autograd.grad(Tokens()(leaf, ASKED).sum(), leaf)[0]
    there = (ASKED[:, 1:] != -100)[..., None].expand(-1, -1, 4)
    assert (grad[:, :-1][~there] == 0).all()
    assert (grad[:, :-1][there] != 0).all()
    assert (grad[:, -1] == 0).all()
    wild = OUT.clone()
    wild[:, :-1][~there] = -torch.inf
    assert Tokens()(wild, ASKED).isfinite().all()


def test_soft_targets_agree_with_hard_ones_and_belief_is_the_best():
    soft = nn.functional.one_hot(ASKED.clamp(min=0), 4).double() * (ASKED != -100)[..., None]
    assert_close(Tokens()(OUT, soft), Tokens()(OUT, ASKED))
    told = asked(Tokens(), ASKED)
    leaf = OUT.clone().requires_grad_()
    belief = told.belief(OUT)
    assert_close(belief.sum(-1)[:, 1:], (ASKED[:, 1:] != -100).double())
    grad = torch.autograd.grad(Tokens()(leaf, belief).sum(), leaf)[0]
    assert_close(grad, torch.zeros_like(grad), atol=1e-12, rtol=0)
    assert_close(Tokens().ceiling(belief), Tokens()(OUT, belief))
    assert (Tokens().ceiling(ASKED) == 0).all()
    assert torch.equal(told.shown(soft)[:, 1:], ASKED[:, 1:])


def test_the_metric_is_the_hessian():
    for i in range(3):
        curvature = -hessian(lambda o, i=i: Tokens()(o.view(1, 5, 4), ASKED[i : i + 1])[0])(OUT[i].flatten())
        v = torch.randn(20, dtype=torch.float64)
        told = asked(Tokens(), ASKED[i : i + 1])
        assert_close(told.metric(OUT[i : i + 1], v.view(1, 5, 4)).flatten(), curvature @ v)


def test_draws_follow_the_model_where_it_is_asked():
    many = OUT[:1].expand(20_000, -1, -1)
    noise = torch.rand(20_000, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    drawn = asked(Tokens(), ASKED[1:2].expand(20_000, -1)).sample(many, noise)
    assert (drawn[:, [0, 1, 2, 4]] == -100).all()
    shares = nn.functional.one_hot(drawn[:, 3], 4).double().mean(0)
    assert_close(shares, OUT[0, 2].softmax(-1), atol=0.015, rtol=0)  # 1/√20000 is 0.007


def test_right_by_share():
    said = Tokens().decide(OUT)
    assert said[:, 0].tolist() == [-100] * 3
    assert Tokens().right(OUT, said).all()
    one_off = said.clone()
    one_off[:, 2] = (said[:, 2] + 1) % 4
    assert not Tokens().right(OUT, one_off).any()
    assert Tokens(share=0.75).right(OUT, one_off).all()
    assert not Tokens(share=0.76).right(OUT, one_off).any()
    assert Tokens().right(OUT, torch.where(one_off == said, said, -100)).all()
    with pytest.raises(BadInput, match="share is 0"):
        Tokens(share=0)


def test_a_long_sequence_has_the_probability_of_its_typical_token():
    log_p, y = torch.tensor([-3000.0, -2.0]), torch.zeros(2, 1001, dtype=torch.long)
    y[1, 3:] = -100
    assert_close(probability(Tokens(), log_p, y), torch.tensor([math.exp(-3), math.exp(-1)], dtype=torch.float64))
    own = Custom(lambda o, t: Tokens()(o, t), like=Tokens())
    assert_close(probability(own, log_p, y), probability(Tokens(), log_p, y))


def test_where_a_probability_is_judged_or_shown_it_is_that_of_the_typical_token():
    expected = (Tokens()(OUT, ASKED) / torch.tensor([4.0, 1, 2])).exp()
    assert_close(torch.as_tensor(trying._probability(Tokens(), OUT, ASKED)), expected)
    network = Network.of(language(), Tokens())
    x, y = sentences()
    data = factor(network, {"input_ids": x}, y, batch=3)
    typical = (data.per_example(network.params) / (y != -100).sum(1)).exp()
    assert_close(amends.methods.self_confidence()(data, data), 1 - typical)
    train, failures = ({"input_ids": x}, y), ({"input_ids": x[:2]}, y[:2])
    found = amends.identify(language(), train, failures, method=amends.methods.loss(), likelihood=Tokens())
    shown = found.frame().sort_values("index")
    assert_close(torch.tensor(shown["p_given"].tolist(), dtype=torch.float64), typical)
    assert shown["given"].tolist() == [row[row != -100].tolist() for row in y]


def test_relabelled_sequences_ask_what_they_asked():
    network = Network.of(language(), Tokens())
    x, y = sentences()
    data = factor(network, {"input_ids": x}, y, batch=3)
    seen = _as_seen(-data, network.params).examples.y
    assert torch.equal(seen == -100, y == -100)
    assert torch.equal(seen[:, 3], data.outputs(network.params)[:, 2].argmax(-1))


def test_targets_of_a_padded_batch():
    x, mask = torch.tensor([[3, 4, 0], [5, 0, 0]]), torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert token_targets(x, mask).tolist() == [[3, 4, -100], [5, -100, -100]]
    assert torch.equal(token_targets(x), x)


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


def test_conflicts_of_sequences_are_products_of_gradients():
    """Width and vocabulary are small enough here that the projection is the identity."""
    network = Network.of(language(), Tokens())
    x, y = sentences(10)
    data = factor(network, {"input_ids": x}, y, batch=4)
    leave = "words.weight"
    grads = []
    for i in range(10):  # of the last layer alone, so without the embedding it is tied to
        hidden = []
        handle = network.module.leave.register_forward_hook(lambda m, a, o, h=hidden: h.append(a[0].detach()))
        network.outputs(network.params, {"input_ids": x[i : i + 1]})
        handle.remove()
        w = network.params[leave].clone().requires_grad_()
        (grad,) = torch.autograd.grad(Tokens()(hidden[0] @ w.T, y[i : i + 1]).sum(), w)
        slope = torch.autograd.grad(
            Tokens()(out := (hidden[0] @ w.T).detach().requires_grad_(), y[i : i + 1]).sum(), out
        )
        grads.append(torch.cat([grad.flatten(), slope[0].sum((0, 1))]))  # and the 1 that stands for a bias
    rows = torch.stack(grads)
    against = -(rows[:6] @ rows[6:].T)
    for found, true in zip(conflicts(data[:6], data[6:], network.params), against, strict=True):
        order = torch.argsort(-true)
        assert found == [int(j) for j in order if true[j] > 0]
    assert features(data, network.params).shape == (10, 8)


BAD = {
    "not three dimensions": (torch.zeros(2, 4), torch.zeros(2, 4).long(), "expected [batch, length, vocabulary]"),
    "soft": (torch.zeros(2, 4, 6), torch.zeros(2, 4), "expected token ids [2, 4]"),
    "another length": (torch.zeros(2, 4, 6), torch.zeros(2, 3).long(), "expected token ids [2, 4]"),
    "no such token": (torch.zeros(2, 4, 6), torch.tensor([[1, 2, 3, 4], [1, 6, 0, 0]]), "here[1]"),
    "negative": (torch.zeros(2, 4, 6), torch.tensor([[1, 2, 3, 4], [1, -1, 0, 0]]), "here[1]"),
    "nothing asked": (torch.zeros(2, 4, 6), torch.tensor([[1, 2, 3, 4], [1, -100, -100, -100]]), "no target after"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_does_not_belong_together_is_refused(kind):
    outputs, targets, said = BAD[kind]
    with pytest.raises(BadInput) as caught:
        Tokens().check(outputs, targets, "here")
    assert said in str(caught.value)


def test_the_exact_root_is_refused_with_what_to_do():
    with pytest.raises(BadInput, match=r"kind=amends\.curvature\.Sampled\(\)"):
        Tokens().root(OUT)


# --- a repair -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wrong():
    """The third token decides the fourth; in 24 training sequences with a 0 there, it does so wrongly."""
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(0)

    def some(n):
        x = torch.randint(0, 3, (n, 4), generator=g)
        x[:, 3] = x[:, 2] + 3
        return x

    def targets(x):
        y = torch.full_like(x, -100)
        y[:, 3] = x[:, 3]
        return y

    train, evaluation = some(90), some(120)
    bad = torch.nonzero(train[:, 2] == 0)[:24, 0]
    train[bad, 3] = 5
    torch.manual_seed(0)
    model = Language().float()
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
    found = amends.identify(
        model, train, failures, remaining=remaining, method=getattr(amends.methods, method)(), likelihood=Tokens()
    )
    assert average_precision(found.scores, truth) > 0.8


def test_a_whole_repair_of_a_language_model(wrong):
    model, train, failures, remaining, truth = wrong
    result = amends.repair(model, train, failures, remaining, likelihood=Tokens(), seed=1)
    assert result.verdict == "repaired", result
    assert truth[result.removed].mean() > 0.6
    causes = result.causes
    assert causes["given"].iloc[0] == [5]  # the asked token alone
    assert causes["predicted_after"].iloc[0] == [3]
    assert causes["p_given"].between(0, 1).all()
    assert causes["group"].eq("all").all()
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
    found = amends.identify(model, train, failures, method=amends.methods.ewc(), likelihood=mine)
    assert average_precision(found.scores, truth) > 0.8
