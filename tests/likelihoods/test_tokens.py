"""Sequences of tokens: the likelihood against an independent loop."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.func import hessian
from torch.testing import assert_close

import amends
from amends.committee import trying
from amends.editors.relabel import _as_seen
from amends.errors import BadInput
from amends.evidence.network import Network
from amends.likelihoods import Custom, Likelihood, Tokens, asked, probability, token_targets
from tests.conftest import factor
from tests.likelihoods.languages import language, sentences

OUT = torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
ASKED = torch.tensor([[-100, 1, 3, 0, 2], [0, -100, -100, 1, -100], [2, 2, -100, -100, 3]])


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
    influence = amends.identify(language(), train, failures, method=amends.methods.loss(), likelihood=Tokens())
    shown = influence.frame().sort_values("index")
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
