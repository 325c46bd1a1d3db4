"""Sets that are too large to be copied are joined where they are."""

from __future__ import annotations

import importlib

import numpy as np
import torch
from torch import nn

import amends
from amends.data.stored import is_stored, one_after_the_other


def test_large_inputs_are_not_copied_where_failures_are_learned_with_them(monkeypatch):
    """The same scores and the same repair, to the bit."""
    torch.manual_seed(0)
    x = torch.randn(160, 6)
    y, model = (x[:, 0] > 0).long(), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    sets = (x[:100], y[:100]), (x[100:120], y[100:120]), (x[120:], y[120:])
    method, seen = amends.methods.fine_tune(learn=True), []

    def made():
        treated = amends.treat(model, sets[0], [1, 2], failures=sets[1], method=method)
        return amends.identify(model, *sets).scores, treated

    def joined(parts):
        seen.append(one_after_the_other(parts))
        return seen[-1]

    scores, whole = made()
    room = importlib.import_module("amends.data.examples")
    monkeypatch.setattr(room, "STAYS", 1)
    monkeypatch.setattr(room, "one_after_the_other", joined)
    found, treated = made()
    assert seen
    assert all(is_stored(x) for x in seen)
    assert np.array_equal(found, scores)
    assert all(torch.equal(a, b) for a, b in zip(treated.parameters(), whole.parameters(), strict=True))
