"""The loss of D once the model has learned what is known to be right: by numbers, and what it is judged by."""

from __future__ import annotations

import numpy as np
import torch
from numpy.testing import assert_allclose

import amends
from amends.committee import decide as committee
from amends.evaluation.rankings import average_precision
from amends.methods.library.fine_tune import fine_tune
from amends.methods.library.loss import LearnedLoss
from tests.committee.worlds import decided, evidence, ours


def softmax(f):
    e = np.exp(f - f.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def trained_on(w, b, x, y, weights, rate, steps):
    """A linear model under Adam in full batches, the rate falling to zero, written out."""
    theta = np.concatenate([w.ravel(), b])
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for i in range(steps):
        p = softmax(x @ theta[: w.size].reshape(w.shape).T + theta[w.size :])
        residual = weights[:, None] * (p - np.eye(len(b))[y])
        slope = np.concatenate([(residual.T @ x).ravel(), residual.sum(0)])
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        up = first / (1 - 0.9 ** (i + 1)) / (np.sqrt(second / (1 - 0.999 ** (i + 1))) + 1e-8)
        theta = theta - rate * (1 - i / steps) * up
    return theta[: w.size].reshape(w.shape), theta[w.size :]


def test_the_score_is_the_loss_after_d_and_known_labels_were_learned_together():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 4).double()
    x, y = torch.randn(30, 3).double(), torch.randint(4, (30,))
    sets = (x[:16], y[:16]), (x[16:20], y[16:20]), (x[20:], y[20:])
    train, failures, right = evidence(net, *sets)
    member = LearnedLoss((fine_tune(0.01, 7, batch=64),), 4.0)
    after = member.after(train, failures, right)
    made = member.score(after, train).numpy()
    weights = np.concatenate([np.ones(16), np.full(14, 4.0)])
    w, b = (p.detach().numpy() for p in net.parameters())
    w, b = trained_on(w, b, x.numpy(), y.numpy(), weights, 0.01, 7)
    p = softmax(x.numpy()[:16] @ w.T + b)
    assert_allclose(made, -np.log(p[np.arange(16), y.numpy()[:16]]), rtol=1e-6)


def test_steps_that_are_too_long_are_made_shorter(world):
    """A rate at which right examples are forgotten, or one that ends nowhere, gives way to the next. One that does no
    harm stays, and so does the last."""
    train, failures, right = evidence(*world[:4])
    far, infinite, usual, short = (fine_tune(rate, 3.0) for rate in (3.0, 1e300, 2e-3, 1e-6))

    def ends(*trainings):
        return LearnedLoss(trainings, 4.0).after(train, failures, right).mean

    def same(a, b):
        return all(torch.equal(a[name], b[name]) for name in a)

    alone = ends(usual)
    assert right.per_example(ends(far)).mean() < right.per_example(right.network.params).mean()
    assert same(ends(far, usual, short), alone)
    assert same(ends(infinite, usual), alone)
    assert same(ends(usual, short), alone)
    assert same(ends(far, far), ends(far))


def test_known_labels_that_were_learned_say_what_right_ones_score(world, monkeypatch):
    """All of them."""
    train, failures, remaining = evidence(*world[:4])
    seen, tried = [], committee.learned
    monkeypatch.setattr(committee, "learned", lambda *given: seen.append(tried(*given)) or seen[-1])
    members = {"it": ours(amends.methods.grad_dot()), "learned": LearnedLoss((fine_tune(2e-3, 5.0),), 4.0)}
    decided(members, train, failures, remaining)
    (trial,) = seen
    ((unseen, judging, of_failures, of_right),) = trial.known
    assert (len(unseen), len(judging)) == (len(failures), len(remaining)) == (len(of_failures), len(of_right))


def test_few_right_examples_teach_nothing(world):
    net, train, failures, remaining, _ = world
    influence = amends.identify(net, train, failures, remaining=tuple(v[:10] for v in remaining))
    (learned,) = (h for h in influence.members if h.name == "learned loss")
    assert learned.weight == 0
    assert "too few right examples to show how high a right label scores" in learned.refused


def test_what_is_learned_finds_more_than_the_loss_itself(world):
    net, train, failures, remaining, turned = world
    wrong = np.isin(np.arange(100), turned)
    data, *known = evidence(net, train, failures, remaining)
    member = LearnedLoss((fine_tune(2e-3, 5.0),), 4.0)
    learned = member.score(member.after(data, *known), data)
    loss = amends.identify(net, train, failures, method=amends.methods.loss()).scores
    assert average_precision(learned.numpy(), wrong) > average_precision(loss, wrong)
