"""Conflicts of sequences are products of gradients, by hand."""

from __future__ import annotations

import torch

from amends.evidence.network import Network
from amends.likelihoods import Tokens
from amends.nearness.conflicts import conflicts
from amends.nearness.neighbours import features
from tests.conftest import factor
from tests.likelihoods.languages import language, sentences


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
    for strongest, true in zip(conflicts(data[:6], data[6:], network.params), against, strict=True):
        order = torch.argsort(-true)
        assert strongest == [int(j) for j in order if true[j] > 0]
    assert features(data, network.params).shape == (10, 8)
