"""Noise drawn at the layers: normal, the example's own, and with the variance of drawn weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends.evidence.factor import Factor
from amends.posteriors import Expected, MeanField
from amends.posteriors.expected import normal


def test_the_noise_is_normal_and_belongs_to_the_example():
    drawn = normal(torch.arange(4000), (5, 3), salt=3)
    assert drawn.shape == (4000, 5, 3)
    assert abs(float(drawn.mean())) < 0.02
    assert abs(float(drawn.std()) - 1) < 0.02
    corr = torch.corrcoef(drawn.reshape(4000, -1).T)
    assert float((corr - torch.eye(15)).abs().max()) < 0.1
    assert_close(normal(torch.tensor([17]), (5, 3), salt=3)[0], drawn[17])
    assert not torch.allclose(normal(torch.tensor([17]), (5, 3), salt=4)[0], drawn[17])


@pytest.mark.parametrize("layer", ["linear", "conv", "embedding"])
def test_local_noise_has_the_variance_of_drawn_weights(layer):
    """Outputs with noise at the layer, against outputs with noise in the weights, by moments."""
    torch.manual_seed(0)
    made = {
        "linear": lambda: nn.Linear(4, 2),
        "embedding": lambda: nn.Sequential(nn.Embedding(5, 2), nn.Flatten()),
        "conv": lambda: nn.Sequential(nn.Conv2d(1, 2, 2, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    }
    model = made[layer]().double()
    x = {"linear": torch.randn(1, 4), "conv": torch.randn(1, 1, 2, 2), "embedding": torch.tensor([[3]])}[layer]
    x = x.double() if x.is_floating_point() else x
    network = amends.evidence.network.Network.of(model, amends.likelihoods.Categorical())
    spread = {k: torch.rand_like(v) * 0.5 for k, v in network.params.items()}
    many = Factor.of(
        network, amends.data.examples((x.expand(20000, *x.shape[1:]), torch.zeros(20000).long()), "t"), 20000
    )
    term = Expected(many, network.params, spread, draws=2)
    keys = torch.as_tensor(many.ids)
    with term._noise({}, keys, 0, 1.0, []) as mean:
        local = network.outputs(mean, many.examples.x)
    draws = MeanField(network.params, spread).sampled(4000).rows(lambda t: network.outputs(t, x)[0])
    assert_close(local.mean(0), draws.mean(0), atol=0.05, rtol=0)
    if layer == "conv":  # places share their weights, which independent noise at each place cannot know
        assert (local.std(0) < draws.std(0) * 1.1).all()
    else:
        assert_close(local.std(0), draws.std(0), rtol=0.05, atol=0)


def splitmix64(state):
    """One output of Steele, Lea & Flood's generator (2014), in Python's whole numbers."""
    z = state % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_noise_is_that_of_splitmix64():
    golden = 0x9E3779B97F4A7C15
    assert [splitmix64(i * golden) for i in (1, 2)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]  # as published
    keys, salt = (0, 1, 77), 5
    uniform = [[(splitmix64(splitmix64(k * golden + salt) + place * golden) >> 11) / 2**53 + 2**-54 for place in (0, 1)]
               for k in keys]  # fmt: skip
    by_hand = torch.special.ndtri(torch.tensor(uniform, dtype=torch.float64))
    assert_close(normal(torch.tensor(keys), (2,), salt), by_hand, rtol=0, atol=0)
