"""The small network of `tanh` as a user has it, and what it is given."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from tests.exact import tanh


def module(theta):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    for p, part in zip(model.parameters(), tanh.parts(theta), strict=True):
        p.data = torch.tensor(part)
    return model


def vector(params):
    return np.concatenate([np.asarray(p.detach()).reshape(-1) for p in params])


@cache
def world(n=30):
    """Overlapping classes, a network that is neither trained nor new, failures it has, and right examples."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 200)
    x = rng.normal(size=(200, 3)) + rng.normal(size=(3, 3))[y]
    theta = rng.normal(size=tanh.SIZE) * 0.5
    for step in tanh.adam(lambda t: tanh.gradients(t, x[:n], y[:n]).sum(0), theta, 0.02, 60):
        theta = step
    right = tanh.logits(theta, x).argmax(1) == y
    wrong, kept = (np.flatnonzero(f)[np.flatnonzero(f) >= n] for f in (~right, right))
    return SimpleNamespace(
        theta=theta, x=x[:n], y=y[:n], fx=x[wrong][:12], fy=y[wrong][:12], rx=x[kept][:20], ry=y[kept][:20]
    )


def pair(x, y):
    return torch.tensor(x), torch.tensor(y)


@cache
def crowd(n, failures, right, seed=0, *, flipped=0.25, steps=60, called=(0, 1, 2), known=(0, 1, 2)):
    """Three clouds; half or so of the labels of one are wrong in D, and some of another. Of failures the model says
    what is `called`; failures and right examples are of the `known` classes."""
    rng = np.random.default_rng(seed)
    centres = 1.2 * rng.normal(size=(3, 3))

    def drawn(m):
        y = rng.integers(0, 3, m)
        return rng.normal(size=(m, 3)) + centres[y], y

    x, y = drawn(n)
    y = np.where((y == 1) & (rng.random(n) < 2 * flipped), 0, y)
    y = np.where((y == 2) & (rng.random(n) < flipped / 2), 1, y)
    theta = rng.normal(size=tanh.SIZE) * 0.5
    for step in tanh.adam(lambda t: tanh.sent_back(t, x[:300], tanh.slopes(t, x[:300], y[:300])), theta, 0.05, steps):
        theta = step
    ox, oy = drawn(20 * failures + 10 * right + 1000)
    said = tanh.logits(theta, ox).argmax(1)
    wrong = np.flatnonzero((said != oy) & np.isin(said, called) & np.isin(oy, known))[:failures]
    kept = np.flatnonzero((said == oy) & np.isin(oy, known))[:right]
    assert (len(wrong), len(kept)) == (failures, right)
    return SimpleNamespace(theta=theta, x=x, y=y, fx=ox[wrong], fy=oy[wrong], rx=ox[kept], ry=oy[kept])
