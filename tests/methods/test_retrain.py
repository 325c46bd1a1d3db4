"""Retraining on what is kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends import methods
from amends.errors import BadInput
from amends.evidence import flatten
from tests.conftest import Table, classification, plain


def test_retraining_on_what_is_kept_reaches_its_optimum():
    x, y, network = classification(n=80)
    kept = np.arange(10, 80)
    model = amends.treat(plain(network), (x, y), np.arange(10), method=methods.retrain(rate=0.05, epochs=300, batch=80))
    loss = nn.functional.cross_entropy(model(x[kept]), y[kept])
    grads = torch.autograd.grad(loss, list(model.parameters()))
    assert float(flatten({str(i): g for i, g in enumerate(grads)}).abs().max()) < 1e-3


def test_retraining_can_start_from_given_weights():
    x, y, network = classification()
    start = nn.Linear(3, 3, dtype=torch.float64)
    model = amends.treat(plain(network), (x, y), [1], method=methods.retrain(epochs=0, start=start))
    assert torch.equal(model.weight, network.params["weight"])  # no step was made, so nothing was taken
    model = amends.treat(plain(network), (x, y), [1], method=methods.retrain(rate=1e-9, epochs=1, start=start))
    assert_close(model.weight, start.weight, atol=1e-6, rtol=0)


def test_retraining_refuses_what_it_cannot_draw_anew():
    x, y, _ = classification()
    with pytest.raises(BadInput, match="no layer draws w anew"):
        amends.treat(Table(), (x, y), [1], method=methods.retrain(epochs=1))
    norm = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).double()
    with pytest.raises(BadInput, match="keeps statistics of its data"):
        amends.treat(norm, (x, y), [1], method=methods.retrain(epochs=1))
