"""Which classes hold the wrong labels behind these failures, and not behind others.

A score that asks only which labels the model finds unlikely finds wrong labels of every kind, whatever the failures
are. But a wrong label teaches the model to predict that label: the causes of a 1 that is called 7 are labelled 7. So
labels of a class count less where the model hardly ever predicts that class on the failures, though it does on D.

A few failures show much if they are alike. Five that are all called 7 show much; five that are called five things show
nothing. So let b be the class shares of the model's predictions on D. Let its class shares on all failures like these
be drawn from a Dirichlet distribution around b with concentration a: small where failures are alike, large where they
are as mixed as D. If f_c of n failures are called c, the expected share of c is (f_c + a b_c) / (n + a). Beforehand
every a is equally likely on a logarithmic scale; it is then weighted by how likely it makes f.
"""

from __future__ import annotations

import numpy as np
import torch

CONCENTRATIONS = 2.0 ** np.arange(-20, 21)  # from failures that are all alike to failures as mixed as D


def relevance(on_train: np.ndarray, on_failures: np.ndarray, hardly: float) -> dict[int, float]:
    """How much labels of each class count, from 0 to 1: in full where the model predicts the class on failures at least
    `hardly` times as often as on D. `on_train` and `on_failures` are its predictions."""
    classes, counts = np.unique(on_train, return_counts=True)
    shares = counts / max(1, len(on_train))
    often = (on_failures[:, None] == classes).sum(0)
    expected = _likely(often, shares) @ _expected(often, shares)
    return dict(zip(classes.tolist(), np.minimum(1, expected / (hardly * shares)).tolist(), strict=True))


def _expected(often: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The share of each class among all failures like these, one row for each concentration."""
    a = CONCENTRATIONS[:, None]
    return (often + a * shares) / (often.sum() + a)


def _likely(often: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """How likely each concentration is, given the failures."""
    a = torch.as_tensor(CONCENTRATIONS)[:, None]
    f, spread = torch.as_tensor(often), a * torch.as_tensor(shares)
    log = (torch.lgamma(f + spread) - torch.lgamma(spread)).sum(1) + (torch.lgamma(a) - torch.lgamma(f.sum() + a))[:, 0]
    return log.softmax(0).numpy()
