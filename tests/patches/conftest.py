"""Patches of the tests are fitted in few steps: enough for networks of a few thousand weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.patches import refit


@pytest.fixture(autouse=True, scope="module")
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refit, "STEPS", 150)
        yield


def trained(x, y, width):
    """A small network that has learned these digits, wrong labels too."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(40):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimiser.step()
    return model


def repaired(change=lambda model: model):
    """A repair of that network, as `change` hands it over."""
    from sklearn.datasets import load_digits

    found, true = load_digits(return_X_y=True)
    x, y = torch.tensor(found / 16).float(), torch.tensor(true)
    given, wrong = amends.data.flip_labels(y[:700].numpy(), {(1, 7): 0.6, (9, 4): 0.6}, seed=0)
    model = trained(x[:700], torch.tensor(given), 32)
    with torch.no_grad():
        ok = model(x[700:]).argmax(1) == y[700:]
    failures, remaining = ((x[700:][at], y[700:][at]) for at in (~ok, ok))
    return amends.repair(
        change(model), (x[:700], torch.tensor(given)), failures, remaining, remove=np.flatnonzero(wrong), learn=False,
        identify_with=wrong.astype(float), treat_with=amends.methods.fine_tune(epochs=4), budget="quick",
        progress=False,
    )  # fmt: skip


@pytest.fixture(scope="session")
def result():
    return repaired()


@pytest.fixture(scope="session", params=[torch.bfloat16, torch.float16])
def half(request):
    """A model in half precision, and its repair."""
    found = []
    made = repaired(lambda model: found.append(model.to(request.param)) or model)
    return found[0], made
