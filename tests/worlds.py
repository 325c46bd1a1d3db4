"""Real models that fail for a known reason, small enough for a test."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import amends
from amends.data import flip_labels

TRAIN, POOL = 300, 500
TRAINED = slice(0, TRAIN)


def digits():
    """800 of scikit-learn's 8x8 digits, in a fixed order."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))[: TRAIN + POOL]
    return torch.tensor(images[order] / 16, dtype=torch.float32), torch.tensor(labels[order])


def learned(x, y, seed=0):
    """A small net that has seen every example forty times."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(40):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    return net.eval()


def right(net, data):
    with torch.no_grad():
        return (net(data[0]).argmax(1) == data[1]).numpy()


def sorted_out(net, x, y):
    """What it gets wrong of the rest, and what it gets right."""
    ok = torch.tensor(right(net, (x[TRAIN:], y[TRAIN:])))
    return tuple((x[TRAIN:][part], y[TRAIN:][part]) for part in (~ok, ok))


def planted_digits():
    """A net that learned nearly half of the 1s as 7 and of the 9s as 4: (model, train, failures, remaining, wrong)."""
    x, y = digits()
    given, wrong = flip_labels(y[TRAINED].numpy(), {(1, 7): 0.45, (9, 4): 0.45}, 0)
    net = learned(x[TRAINED], torch.tensor(given))
    return net, (x[TRAINED], torch.tensor(given)), *sorted_out(net, x, y), wrong


def clean_digits():
    """A net that learned right labels, and still fails on some: (model, train, failures, remaining)."""
    x, y = digits()
    net = learned(x[TRAINED], y[TRAINED])
    return net, (x[TRAINED], y[TRAINED]), *sorted_out(net, x, y)


def nonsense_digits():
    """The same net, with right examples called failures under labels drawn at random."""
    net, train, _, (x, y) = clean_digits()
    g = torch.Generator().manual_seed(0)
    wrong = (y[:40] + torch.randint(1, 10, (40,), generator=g)) % 10
    return net, train, (x[:40], wrong), (x[40:], y[40:])


def lines():
    """A linear model, data it is right about, right examples and failures."""
    torch.manual_seed(0)
    net, x = nn.Linear(4, 3), torch.randn(160, 4)
    said = net(x).argmax(1).detach()
    return net, (x[:80], said[:80]), (x[80:110], (said[80:110] + 1) % 3), (x[110:], said[110:])


def turned_corner():
    """Three classes, a corner of one of them labelled as another in training, and a small net that learned that:
    (model, train, failures, remaining, positions of the turned labels)."""
    g = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (300,), generator=g)
    centres = torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]], dtype=torch.float64)
    x = centres[y] + 0.6 * torch.randn(300, 2, generator=g, dtype=torch.float64)
    given = y[:100].clone()
    turned = np.flatnonzero((y[:100].numpy() == 0) & (x[:100, 1].numpy() > 0))
    given[turned] = 1
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=40)

    def loss():
        optimiser.zero_grad()
        value = nn.functional.cross_entropy(net(x[:100]), given) + 1e-3 * sum((p**2).sum() for p in net.parameters())
        value.backward()
        return value

    optimiser.step(loss)
    with torch.no_grad():
        ok = net(x[100:]).argmax(1) == y[100:]
    failures, remaining = ((x[100:][part], y[100:][part]) for part in (~ok, ok))
    return net, (x[:100], given), failures, remaining, turned


QUICK = {"identify_with": amends.methods.grad_dot(), "treat_with": amends.methods.fine_tune(epochs=1), "remove": 5}


def cheaply(result, **options):
    """Scores that are known already, so that only treating takes time."""
    return {"identify_with": result.influence.scores, "remove": 45, **options}


def same_weights(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
