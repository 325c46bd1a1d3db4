"""A small model is computed with one thread, a larger one with as many as there are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import amends
from amends.data.examples import examples
from amends.evidence import threads
from amends.evidence.network import Network
from amends.likelihoods import Categorical


@pytest.fixture
def three():
    """Threads, in a process that has one."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


class Noting(nn.Module):
    """Threads seen while it is computed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.Linear(width, 2))
        self.seen: list[int] = []

    def forward(self, x):
        self.seen.append(torch.get_num_threads())
        return self.layers(x)

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize(("width", "expected"), [(8, 1), (1500, 3)])
def test_threads_follow_from_the_size_of_the_model(three, width, expected):
    torch.manual_seed(0)
    x, model = torch.randn(40, 4), Noting(width)
    y = (x[:, 0] > 0).long()
    with torch.no_grad():
        wrong = model(x).argmax(1) != y
    model.seen.clear()
    amends.identify(model, (x, y), (x[wrong], y[wrong]), method=amends.methods.grad_dot())
    assert model.seen[-1] == expected
    assert torch.get_num_threads() == 3


def test_operations_are_those_of_one_example():
    x = torch.randn(10, 4)
    layer = Network.of(nn.Linear(4, 3), Categorical())
    assert threads.operations(layer, examples((x, torch.zeros(10, dtype=torch.long)), "train")) == 2 * 4 * 3
    one = examples((x[:1], torch.zeros(1, dtype=torch.long)), "train")
    assert threads.operations(layer, one) == 2 * 4 * 3


def test_a_model_that_cannot_be_watched_keeps_its_threads(three, monkeypatch):
    def refused(*_, **__):
        raise RuntimeError("not here")

    monkeypatch.setattr(threads, "FlopCounterMode", refused)
    layer = Network.of(nn.Linear(4, 3), Categorical())
    threads.settle(layer, examples((torch.randn(5, 4), torch.zeros(5, dtype=torch.long)), "train"))
    assert torch.get_num_threads() == 3
