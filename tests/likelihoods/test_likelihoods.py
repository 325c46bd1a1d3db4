"""log p(y | outputs) against torch's distributions, and the Fisher of the outputs against its definition."""

from __future__ import annotations

import pytest
import torch
from torch import distributions as dist
from torch.func import hessian
from torch.testing import assert_close

from amends.likelihoods import Bernoulli, Categorical, Custom, Gaussian, Likelihood, as_likelihood

OUT = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
CLASSES = torch.tensor([0, 3, 1, 2, 2, 0, 1])
LABELS = (OUT.roll(1, 0) > 0).double()
FAMILIES = {
    "categorical": (Categorical(), CLASSES, dist.Categorical(logits=OUT).log_prob(CLASSES)),
    "bernoulli": (Bernoulli(), LABELS, dist.Bernoulli(logits=OUT).log_prob(LABELS).sum(1)),
    "gaussian": (Gaussian(0.3), LABELS, dist.Normal(OUT, 0.3).log_prob(LABELS).sum(1)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_nats_per_example(name):
    family, targets, expected = FAMILIES[name]
    assert isinstance(family, Likelihood)
    assert_close(family(OUT, targets), expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_root_is_a_root_of_the_hessian(name):
    family, targets, _ = FAMILIES[name]
    root = family.root(OUT)
    rows = zip(OUT, targets, strict=True)
    curvature = torch.stack([-hessian(lambda o, t=t: family(o[None], t[None])[0])(o) for o, t in rows])
    assert_close(root.mT @ root, curvature)
    vector = torch.randn_like(OUT)
    assert_close(family.metric(OUT, vector), (curvature @ vector[..., None])[..., 0])


@pytest.mark.parametrize("name", FAMILIES)
def test_samples_follow_the_model(name):
    family, _, _ = FAMILIES[name]
    many = OUT[:1].expand(40_000, -1)
    noise = torch.rand(many.shape, dtype=many.dtype, generator=torch.Generator().manual_seed(1))
    drawn = family.sample(many, noise)
    mean = torch.nn.functional.one_hot(drawn, 4).double().mean(0) if name == "categorical" else drawn.mean(0)
    assert_close(mean, family.belief(OUT[:1])[0], atol=0.01, rtol=0)  # 1/√40000 is 0.005


@pytest.mark.parametrize("name", FAMILIES)
def test_its_own_belief_is_the_best_soft_target(name):
    """∇ of log p under the model's own prediction is zero: an anchor does not move the model."""
    family, _, _ = FAMILIES[name]
    leaf = OUT.clone().requires_grad_()
    grad = torch.autograd.grad(family(leaf, family.belief(OUT)).sum(), leaf)[0]
    assert_close(grad, torch.zeros_like(grad), atol=1e-12, rtol=0)


def test_soft_and_hard_classes_agree():
    assert_close(Categorical()(OUT, torch.eye(4, dtype=OUT.dtype)[CLASSES]), Categorical()(OUT, CLASSES))


def test_right():
    assert Categorical().right(OUT, OUT.argmax(1)).all()
    assert not Categorical().right(OUT, (OUT.argmax(1) + 1) % 4).any()
    assert Bernoulli().right(OUT, (OUT > 0).double()).all()
    assert not Bernoulli().right(OUT, (OUT > 0).double().roll(1, 1) * 0 + (OUT < 0).double()).any()
    assert Gaussian(0.3).right(OUT, OUT + 0.59).all()
    assert not Gaussian(0.3).right(OUT, OUT + 0.61).any()
    assert Gaussian(0.3, bound=1.0).right(OUT, OUT + 0.9).all()


def test_any_callable_becomes_one():
    assert as_likelihood(None) == Categorical()
    assert as_likelihood(Bernoulli()) == Bernoulli()
    mine = as_likelihood(lambda o, t: -((o - t) ** 2).sum(1))
    assert isinstance(mine, Custom)
    assert_close(mine(OUT, OUT + 1), torch.full((7,), -4.0, dtype=OUT.dtype))
