"""What the last linear layer of a sequence model sees, against loops over its places in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.curvature.last import SKETCH, last_gradients, last_layer
from amends.evidence.network import Network
from amends.likelihoods import Tokens
from tests.conftest import factor

VOCABULARY = 6


def world(width=3):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(VOCABULARY, width), nn.Tanh(), nn.Linear(width, VOCABULARY)).double()
    x = torch.randint(VOCABULARY, (5, 4))
    y = torch.where(torch.rand(5, 4) < 0.3, -100, torch.randint(VOCABULARY, (5, 4)))
    y[0], y[1, 1:] = -100, torch.tensor([2, 4, 1])  # nothing is asked of the first, everything of the second
    return net, x, y


def places(net, x, y):
    """For each example, inputs with a 1 and gradients of log p of the places where a token is asked."""
    hidden = np.tanh(net[0].weight.detach().numpy())[x.numpy()]
    weight, bias = net[2].weight.detach().numpy(), net[2].bias.detach().numpy()
    for row, asked in zip(hidden, y.numpy(), strict=True):
        found = []
        for a, token in zip(row[:-1], asked[1:], strict=True):  # the place before predicts it
            if token >= 0:
                said = np.exp(weight @ a + bias)
                found.append((np.append(a, 1.0), np.eye(VOCABULARY)[token] - said / said.sum()))
        yield found


@pytest.mark.parametrize("batch", [2, 5])
def test_a_sequence_is_the_mean_of_its_inputs_and_the_sum_of_its_gradients(batch):
    net, x, y = world()
    data = factor(Network.of(net, Tokens()), x, y, batch=batch)
    inputs, grads = last_layer(data, data.network.params)
    for a, g, found in zip(inputs, grads, places(net, x, y), strict=True):
        mean = np.mean([p for p, _ in found], 0) if found else np.zeros(4)
        total = np.sum([q for _, q in found], 0) if found else np.zeros(VOCABULARY)
        assert_close(a, torch.tensor(mean), atol=1e-12, rtol=0)
        assert_close(g, torch.tensor(total), atol=1e-12, rtol=0)


def test_dot_products_of_gradients_are_kept():
    """To the last digit where no projection is needed; on average over wide layers, here within a fifth of the norms:
    the spread of a projection to 32 dimensions."""
    for width, near in ((3, 1e-12), (200, 0.2)):
        net, x, y = world(width)
        data = factor(Network.of(net, Tokens()), x, y)
        a, g = last_gradients(data, data.network.params)
        whole = [sum((np.outer(p, q) for p, q in found), np.zeros((width + 1, VOCABULARY))).ravel()
                 for found in places(net, x, y)]  # fmt: skip
        exact, kept = np.array(whole) @ np.array(whole).T, ((a @ a.T) * (g @ g.T)).numpy()
        size = np.sqrt(np.outer(np.diag(exact), np.diag(exact))).max()
        assert np.abs(kept - exact).max() <= near * size
        assert (width > SKETCH) == (np.abs(kept - exact).max() > 1e-9 * size)
