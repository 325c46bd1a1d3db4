"""Members to try, worlds to try them in, and what is decided there."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from amends.committee.decide import SETTINGS, decide
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from amends.methods.ratio import label_part
from amends.progress import Progress
from tests.conftest import factor


class Recording:
    """A member that keeps what it was given and where its edits ended."""

    def __init__(self, method):
        self.method, self.held, self.shown, self.ends = method, [], [], []

    def remember(self, train, remaining):
        self.held.append(None if remaining is None else remaining.ids)
        return self.method.remember(train, remaining)

    def editor(self, posterior, evidence):
        self.shown.append(evidence)
        *_, end = path = list(self.method.editor(posterior, evidence))
        self.ends.append(end)
        yield from path

    def as_member(self):
        return self.method._replace(remember=self.remember, editor=self.editor)


def evidence(net, *sets):
    """A net with its train, failures and remaining, as factors."""
    network = Network.of(net, Categorical())
    named = zip(("train", "failures", "remaining"), sets, strict=True)
    return [factor(network, *data, name, batch=64) for name, data in named]


def decided(members, train, failures, remaining, seed=0, **trials):
    """With other settings of trials, where they are given."""
    settings = replace(SETTINGS, trials=replace(SETTINGS.trials, **trials))
    return decide(members, train, failures, remaining, seed, Progress(), settings)


def ours(method):
    """As a member of the default."""
    return method._replace(mass=1.0, score=label_part)


def chance(data, theta):
    """The probability of each example's own label."""
    return data.per_example(theta).exp().numpy()


def blobs(n, seed, flipped):
    """Two overlapping kinds, some of the labels turned at random."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    x = torch.randn(n, 10, generator=g, dtype=torch.float64)
    x[:, 0] += 1.3 * (2 * y - 1)
    turned = torch.rand(n, generator=g) < flipped
    return x, y, turned


def fitted(x, y, width, steps):
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 2)).double() if width else None
    net = wide or nn.Linear(10, 2).double()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net
