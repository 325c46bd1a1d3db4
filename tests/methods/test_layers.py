"""Models whose layers cannot be followed, by plain autograd: one that is called twice, a parameter that belongs to
none, one that is called by keyword."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends import methods
from amends.curvature import GGN, Diagonal
from amends.editors import LBFGS
from amends.remember import Variational as FittedSpread
from tests.conftest import Table, classification, factor
from tests.exact.curvature import ggn_vectors, per_example_vectors
from tests.exact.curvature import scores as slopes
from tests.exact.test_spread import normals
from tests.exact.world import vector


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3, dtype=torch.float64)

    def forward(self, x):
        return self.a(torch.tanh(self.a(x)))


class Keyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3, dtype=torch.float64)

    def forward(self, x):
        return self.a(input=x)


MODELS = {"tied alone": Shared, "loose": Table, "by keyword": Keyword}
X, Y, _ = classification()
D, F = (X[:50], Y[:50]), (X[50:], Y[50:])


class Slow:
    """A model as numpy sees it: gradients of one example after the other."""

    def __init__(self, name):
        torch.manual_seed(0)
        self.model = MODELS[name]()
        self.names = [k for k, _ in self.model.named_parameters()]
        self.start = vector(self.model.parameters())

    def at(self, theta):
        parts, params = torch.tensor(theta), {}
        for k, p in self.model.named_parameters():
            params[k], parts = parts[: p.numel()].reshape(p.shape), parts[p.numel() :]
        return params

    def outputs(self, theta, x):
        return torch.func.functional_call(self.model, self.at(theta), (x,)).detach()

    def rows(self, theta, x, vectors):
        return per_example_vectors(self.model, self.at(theta), x, vectors).numpy()

    def gradients(self, theta, x, y):
        return self.rows(theta, x, slopes(self.outputs(theta, x), y))

    def jacobians(self, x):
        return np.stack([self.rows(self.start, x, row.expand(len(x), 3)) for row in torch.eye(3).double()], 1)

    def curvature(self):
        rows = np.concatenate([self.rows(self.start, D[0], v) for v in ggn_vectors(self.outputs(self.start, D[0]))])
        return rows.T @ rows

    def log_p(self, theta, x, y):
        return self.outputs(theta, x).log_softmax(1)[torch.arange(len(y)), y].numpy()

    def identified(self, method):
        return amends.identify(self.model, D, F, method=method)


FAR = LBFGS(steps=400, tolerance=1e-9)
QUADRATIC = {  # blocks are of layers that can be followed, and noise is drawn at their outputs
    "ewc": (methods.ewc(0.7, climb=FAR), 0.7), "kfac_ewc": (methods.kfac_ewc(0.7, climb=FAR), 0.7),
    "vcl": (methods.vcl(2.0, climb=FAR), 2.0),
}  # fmt: skip


@pytest.mark.parametrize(("model", "name"), [
    (model, name) for model in MODELS for name in QUADRATIC if (model, name) != ("tied alone", "vcl")
])  # fmt: skip
def test_the_weights_are_held_by_the_diagonal(model, name):
    """The forces cancel where it ends, relative to what they were; scores are what each example lost."""
    slow, (method, prior) = Slow(model), QUADRATIC[name]
    found = slow.identified(method)
    theta = vector(found.edited.mean.values())
    pull = (np.diag(slow.curvature()) + prior) * (theta - slow.start)
    left = slow.gradients(theta, *F).sum(0) - pull
    assert np.abs(left).max() < 1e-6 * np.abs(pull).max()
    lost = slow.log_p(slow.start, *D) - slow.log_p(theta, *D)
    np.testing.assert_allclose(found.scores, lost, atol=1e-9)


def test_noise_is_drawn_at_every_call_of_a_layer():
    """What is fitted and edited is at rest: E log p with noise of its own at either call, and the divergence."""
    slow = Slow("tied alone")
    found = slow.identified(methods.vcl(2.0, draws=4, climb=FAR, seed=1))
    start, spread = slow.start, vector(found.start.spread.values())
    mean, after = (vector(part.values()) for part in (found.edited.mean, found.edited.spread))
    drawn = {of: [[normals(of, n, 3, 1, draw, call) for call in (1, 2)] for draw in (0, 1)]
             for of, n in (("train", 50), ("failures", 10))}  # fmt: skip

    def slope(of, x, y, mean, spread):
        """Of E log p by mean and spread."""
        leaves = [torch.tensor(part, requires_grad=True) for part in (mean, spread)]
        (w, b), (v, c) = ((leaf[:9].reshape(3, 3), leaf[9:]) for leaf in leaves)
        total = 0.0
        for calls in drawn[of]:
            for sign in (1.0, -1.0):
                h = x
                for number, noise in enumerate(calls):
                    out = h @ w.T + b + sign * ((h**2) @ (v**2).T + c**2).sqrt() * noise
                    h = out if number else out.tanh()
                total = total + 0.25 * h.log_softmax(1)[torch.arange(len(y)), y].sum()
        return [g.numpy() for g in torch.autograd.grad(total, leaves)]

    def fit(s):
        return slope("train", *D, start, s)[1] * s + 1 - 2.0 * s**2

    first = (np.diag(slow.curvature()) + 2.0) ** -0.5
    assert np.abs(fit(spread)).max() < 1e-3 * np.abs(fit(first)).max()  # it ends at a thousandth
    by_mean, by_spread = slope("failures", *F, mean, after)
    assert np.abs(by_mean * spread - (mean - start) / spread).max() < 1e-6
    assert np.abs(by_spread * after + 1 - (after / spread) ** 2).max() < 1e-6


@pytest.mark.parametrize("model", MODELS)
def test_linear_influence_of_any_model(model):
    slow = Slow(model)
    g, gf, whole = slow.gradients(slow.start, *D), slow.gradients(slow.start, *F).sum(0), slow.curvature()
    mean, eye = np.trace(whole) / len(whole), np.eye(len(whole))
    expected = -g @ np.linalg.solve(whole + 0.3 * mean * eye, gf)
    for solver in (methods.cg(0.3, tolerance=1e-11), methods.dense(0.3)):
        np.testing.assert_allclose(slow.identified(methods.linear(solver)).scores, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_influence_for_its_size_and_another_label_by_the_diagonal(model):
    """As shipped, raised by ten times its mean."""
    slow = Slow(model)
    g, gf, diagonal = slow.gradients(slow.start, *D), slow.gradients(slow.start, *F).sum(0), np.diag(slow.curvature())
    inverse = 1 / (diagonal + 10 * diagonal.mean())
    expected = -(g * inverse) @ gf / np.sqrt((g**2 * inverse).sum(1))
    np.testing.assert_allclose(slow.identified(methods.relatif()).scores, expected, rtol=1e-9, atol=1e-12)
    change = slow.jacobians(D[0]) @ (inverse * gf)
    p, given = slow.outputs(slow.start, D[0]).softmax(1).numpy(), np.eye(3)[D[1]]
    others = p * (1 - given) / (p * (1 - given)).sum(1, keepdims=True)
    expected = ((others - given) * change).sum(1)
    np.testing.assert_allclose(slow.identified(methods.sufficiency()).scores, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_an_edit_across_gradients_of_any_model(model):
    """The first step goes up the gradient of what it is shown, less what of it lies along those that are kept."""
    slow = Slow(model)
    at = np.sort(torch.randperm(50, generator=torch.Generator().manual_seed(0))[:2].numpy())
    rows = slow.jacobians(D[0][at])[[0, 1], D[1][at]]
    found = slow.identified(methods.ogd(2, climb=LBFGS(steps=1), hold=0.0))
    move = vector(found.edited.mean.values()) - slow.start
    up = slow.gradients(slow.start, *F).sum(0)
    basis = np.linalg.qr(rows.T)[0]
    across = up - basis @ (basis.T @ up)
    np.testing.assert_allclose(move / np.linalg.norm(move), across / np.linalg.norm(across), atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_a_replayed_run_of_any_model(model):
    """Gone through backwards; the Hessian as a difference of gradients, which errs by a millionth."""
    slow, batches = Slow(model), amends.trace.batches(50, 20, 5)
    steps, path, theta = [next(batches) for _ in range(3)], [], slow.start
    for at in steps:
        path.append(theta)
        theta = theta + 0.1 / len(at) * slow.gradients(theta, D[0][at], D[1][at]).sum(0)
    u, expected = slow.gradients(theta, *F).sum(0), np.zeros(50)
    for at, here in zip(steps[::-1], path[::-1], strict=True):
        expected[at] -= 0.1 / len(at) * slow.gradients(here, D[0][at], D[1][at]) @ u
        up, down = (slow.gradients(here + s * u, D[0][at], D[1][at]).sum(0) for s in (1e-5, -1e-5))
        u = u + 0.1 / len(at) * (up - down) / 2e-5
    found = slow.identified(methods.sgd_influence(batch=20, rate=0.1, seed=5))
    np.testing.assert_allclose(found.scores, expected, rtol=1e-6, atol=1e-8)


def scored(model, name):
    method = methods.ogd(memory=2) if name == "ogd" else methods.BY_NAME[name]()
    return amends.identify(model, D, F, method=method).scores


@pytest.mark.parametrize("name", ["ewc", "ogd", "linear", "sgd_influence"])
def test_the_general_way_gives_what_a_layer_that_can_be_followed_does(name):
    """The same function of the same weights, called in ways that hooks do not see; not so Kronecker factors."""
    torch.manual_seed(0)
    keyword, loose = Keyword(), Table()
    np.testing.assert_allclose(scored(keyword, name), scored(keyword.a, name), rtol=1e-6, atol=1e-9)
    plainly = nn.Linear(3, 3, bias=False, dtype=torch.float64)
    loose.w.data, plainly.weight.data = plainly.weight.data.T.clone(), plainly.weight.data
    np.testing.assert_allclose(scored(loose, name), scored(plainly, name), rtol=1e-6, atol=1e-9)


def test_a_layer_whose_noise_is_not_drawn_keeps_its_curvature():
    """Called by keyword it cannot be drawn for; its spread is the Laplace one, not the prior's."""
    torch.manual_seed(0)
    network = amends.evidence.network.Network.of(Keyword(), amends.likelihoods.Categorical())
    data = factor(network, X, Y)
    q = FittedSpread(prior=0.5)(data)
    expected = (Diagonal(GGN())(data, network.params).data["a.weight"] + 0.5).rsqrt()
    assert_close(q.spread["a.weight"], expected, rtol=1e-3, atol=0)
