"""What a batch norm remembers of training, against what it meets; and that a model that knows too little is told so."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as nnf

from amends.algorithm import belong
from amends.algorithm.belong import logits, of_evaluation, of_train, readings
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from tests.conftest import factor

NORM = "the inputs of the first batch norm have another mean or spread"


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4,), (2, 6, 6)], ids=str)
def test_what_a_batch_norm_remembers_of_series_tables_and_images(shape):
    """Channels are the second dimension of all of them, also where a series has as many steps or more."""
    torch.manual_seed(0)
    layers = {1: nn.Linear, 2: lambda a, b: nn.Conv1d(a, b, 1), 3: lambda a, b: nn.Conv2d(a, b, 1)}
    norms = {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm2d}
    net = nn.Sequential(layers[len(shape)](shape[0], 7), norms[len(shape)](7), nn.Flatten(), nn.LazyLinear(2))
    x, y = torch.randn(200, *shape) + 3, torch.arange(200) % 2
    for _ in range(60):
        net.train()(x)
    forgot = copy.deepcopy(net)
    forgot[1].reset_running_stats()
    for model, said in ((net, False), (forgot, True)):
        told = list(readings(factor(Network.of(model.eval(), Categorical()), x, y, batch=200), None))
        assert any(NORM in line for line in told) == said


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(8), nn.Identity()])
def test_a_batch_norm_that_remembers_is_named_where_a_model_knows_too_little(norm):
    """Its last layer was never trained."""
    torch.manual_seed(0)
    x, y = torch.randn(400, 8), torch.arange(400) % 2
    x[:, 0] += 4.0 * y
    train = factor(Network.of(nn.Sequential(norm, nn.Linear(8, 2)).eval(), Categorical()), x, y, batch=200)
    (told,) = of_train(train, logits(train))
    assert "the model does not seem to be trained on this data" in told
    named = "check its weights, what its batch norm remembers, how inputs" in told
    assert named == isinstance(norm, nn.BatchNorm1d)


def test_evaluation_is_looked_at_in_proportion_and_not_from_its_beginning(monkeypatch):
    """Right examples are sorted by class: what is looked at has all of them."""
    seen = []
    net = nn.Linear(3, 3)
    net.weight.data, net.bias.data = 5 * torch.eye(3), torch.zeros(3)
    y = torch.arange(300) // 100
    network = Network.of(net.eval(), Categorical())
    right = factor(network, nnf.one_hot(y).float(), y, "remaining")
    failures = factor(network, nnf.one_hot((y + 1) % 3).float(), y, "failures")
    monkeypatch.setattr(belong, "logits", lambda data: seen.append(data) or logits(data))
    list(of_evaluation({"failures": failures, "remaining": right}, {"failures": 3000, "remaining": 300}))
    few = next(data for data in seen if data.examples.name == "remaining")
    assert len(few) == 30
    assert set(few.examples.y.tolist()) == {0, 1, 2}
