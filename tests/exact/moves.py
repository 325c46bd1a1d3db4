"""Ways from one point to another on the network of `tanh`: a tangent, L-BFGS, and training in batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tests.exact import tanh


@dataclass
class Along:
    """A tangent: outputs change by J v."""

    start: np.ndarray
    way: np.ndarray

    def moves(self, x):
        return tanh.along(self.start, x, self.way)

    def log_p(self, x, y):
        slopes = tanh.slopes(self.start, x, y)
        return tanh.log_p(self.start, x, y) + (slopes * self.moves(x)).sum(1)


@dataclass
class To:
    """Another point."""

    start: np.ndarray
    way: np.ndarray

    def moves(self, x):
        return tanh.logits(self.start + self.way, x) - tanh.logits(self.start, x)

    def log_p(self, x, y):
        return tanh.log_p(self.start + self.way, x, y)


def between(one, other):
    """Halfway between where two edits of a kind ended."""
    return type(one)(one.start, (one.way + other.way) / 2)


def climbing(theta, x, y, weight=1.0):
    """Σ log p, so many times, and its gradient."""
    p, own = tanh.probabilities(theta, x), np.eye(tanh.CLASSES)[y]
    return weight * np.log((p * own).sum(1)).sum(), tanh.sent_back(theta, x, weight * (own - p))


def climbed(terms, start, steps, tolerance=1e-4):
    """Where torch's own L-BFGS ends that climbs the sum of the terms, each with its value and gradient, in so many
    steps; or when no entry of the gradient exceeds so small a part of the largest at the start."""

    def look(theta):
        values, slopes = zip(*(term(theta) for term in terms), strict=True)
        return sum(values), sum(slopes)

    def closure():
        value, slope = look(point.detach().numpy())
        point.grad = torch.tensor(-unit * slope)
        return -unit * value

    point, (first, slope) = torch.tensor(start, requires_grad=True), look(start)
    unit, value = 1 / (1 + abs(first)), np.inf
    optimiser = torch.optim.LBFGS(
        [point], max_iter=1, max_eval=26, history_size=10, line_search_fn="strong_wolfe", tolerance_grad=0,
        tolerance_change=0,
    )  # fmt: skip
    for _ in range(steps):
        optimiser.step(closure)
        before, value = value, closure()
        assert value <= before
        if value == before or np.abs(point.grad.numpy()).max() <= tolerance * unit * np.abs(slope).max():
            break
    return point.detach().numpy()


def harmless(start, x, y, ends):
    """The first end at which these are believed no less than at the start. If there is none, the best end of those up
    to the first that is worse than the one before; and which it is."""
    said, tried = [tanh.log_p(start, x, y).mean()], []
    for end in ends:
        tried.append(end)
        said.append(tanh.log_p(end, x, y).mean())
        if said[-1] >= said[0] or (len(tried) > 1 and said[-1] <= said[-2]):
            break
    way = len(tried) - 1 if said[-1] >= said[0] else int(np.argmax(said[1:]))
    return tried[way], way


def trained(theta, x, y, weights, rate, epochs, size, seed=0):
    """The end of Adam on batches that stand for all. Its rate rises over a fifth of the steps, then falls to zero."""
    n, noise = len(x), torch.Generator().manual_seed(seed)
    per_epoch, order = -(-n // size), []

    def gradient(t):
        nonlocal order
        if not len(order):
            order = np.arange(n) if n <= size else torch.randperm(n, generator=noise).numpy()
        at, order = order[:size], order[size:]
        return tanh.sent_back(t, x[at], n / len(at) * weights[at, None] * tanh.slopes(t, x[at], y[at]))

    *_, end = tanh.adam(gradient, theta, rate, round(epochs * per_epoch), falling=True, rising=0.2)
    return end
