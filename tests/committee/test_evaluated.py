"""What the model as it came says of a set, beside what it is asked for directly."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from amends.committee import evaluated
from amends.committee.evaluated import Evaluated
from amends.curvature import Diagonal
from amends.evidence.network import Network
from amends.likelihoods import Categorical, Gaussian
from amends.methods.ratio import first_order
from amends.posteriors import Ensemble, Point
from amends.remember import Laplace
from tests.conftest import factor


def world(targets, likelihood):
    torch.manual_seed(0)
    network = Network.of(nn.Linear(4, 3), likelihood)
    return factor(network, torch.randn(50, 4), targets, batch=16)


@pytest.fixture(params=[0, 2**26])
def kept(request, monkeypatch):
    monkeypatch.setattr(evaluated, "KEPT", request.param)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    ("targets", "likelihood"),
    [
        (torch.arange(50) % 3, Categorical()),
        (torch.arange(150.0).reshape(50, 3).softmax(1), Categorical()),
        (torch.arange(150.0, dtype=torch.float64).reshape(50, 3), Gaussian()),
    ],
    ids=["classes", "soft", "numbers"],
)
def test_log_p_is_that_of_the_model_to_the_bit(targets, likelihood):
    data = world(targets, likelihood)
    every, some = Evaluated.of(data), torch.arange(3, 40).numpy()
    assert torch.equal(every.log_p, data.per_example(data.network.params))
    if every.outputs is None:  # asked again, in other batches: some processors then round otherwise
        torch.testing.assert_close(every[some].log_p, every.log_p[3:40])
    else:
        assert torch.equal(every[some].log_p, every.log_p[3:40])
    assert Evaluated.of(data[:0]).log_p.shape == (0,)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("kind", ["as it came", "elsewhere", "several", "drawn"])
def test_what_is_lost_is_lost_by_the_posterior(kind):
    """The model as it came speaks for a posterior at its weights, but for none that is drawn from or has members."""
    data = world(torch.arange(50) % 3, Categorical())
    start = data.network.params
    other = {k: v + torch.randn_like(v) for k, v in start.items()}
    before = {
        "as it came": Point(start),
        "elsewhere": Point(other),
        "several": Ensemble((Point(start), Point(other))),
        "drawn": Laplace(Diagonal(prior=1.0))(data).sampled(3),
    }[kind]
    assert torch.equal(Evaluated.of(data).lost(before, Point(other)), first_order(before, Point(other), data))


def test_a_set_that_has_its_outputs_is_returned_unchanged():
    once = Evaluated.of(world(torch.arange(50) % 3, Categorical()))
    assert Evaluated.of(once) is once
