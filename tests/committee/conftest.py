"""Worlds that members are tried in."""

from __future__ import annotations

import pytest
import torch

import amends
from amends.committee import decide as committee
from tests.committee.worlds import blobs, fitted
from tests.worlds import turned_corner


@pytest.fixture(scope="module")
def world():
    return turned_corner()


@pytest.fixture(scope="module")
def influence(world):
    net, train, failures, remaining, _ = world
    return amends.identify(net, train, failures, remaining=remaining)


@pytest.fixture
def alike(monkeypatch):
    """Harm counts the same, however sure members are and whatever is taken for what."""
    monkeypatch.setattr(committee, "confidence", lambda *_: 1.0)
    monkeypatch.setattr(committee, "pair_factor", lambda *_: None)


@pytest.fixture(scope="module")
def strewn():
    """A line through two kinds; a quarter of the labels wrong, which it cannot fit."""
    x, y, turned = blobs(1200, 0, 0.25)
    given = torch.where(turned, 1 - y, y)
    net = fitted(x, given, 0, 300)
    xt, yt, _ = blobs(2000, 1, 0.0)
    with torch.no_grad():
        ok = net(xt).argmax(1) == yt
    return net, (x, given), (xt[~ok], yt[~ok]), (xt[ok], yt[ok]), turned.numpy(), y
