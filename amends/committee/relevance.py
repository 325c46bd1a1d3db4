"""Which wrong labels stand behind these failures, and not behind others.

A score that asks only whether a label is believed finds wrong labels of every kind, whatever failures are shown. But
a wrong label teaches the model to say what is written on it: causes of a 1 that is called 7 are among the sevens.
So labels of a class count less where the model hardly ever says that class of the failures, though it says it of D.

Few failures can tell much or little. Five that are all called 7 tell much; five that are called five things tell
nothing. So let b be the shares of classes in what the model says of D, and let those among all failures like the ones
shown be drawn from a Dirichlet distribution around b with concentration a: small where they are alike, large where
they are as mixed as D. If f_c of n failures are called c, the share of c is expected to be (f_c + a b_c) / (n + a).
Every a is as likely as another beforehand, on a logarithmic scale, and counts by how likely it makes f.
"""

from __future__ import annotations

import numpy as np
import torch

CONCENTRATIONS = 2.0 ** np.arange(-20, 21)  # from failures that are all alike to failures as mixed as D


def relevance(said: np.ndarray, called: np.ndarray, hardly: float) -> dict[int, float]:
    """How much labels of each class count, from 0 to 1: in full where the model says the class of failures at least
    `hardly` times as often as of D. `said` is what it says of each example of D, `called` what it says of each
    failure."""
    classes, counts = np.unique(said, return_counts=True)
    shares = counts / max(1, len(said))
    often = (called[:, None] == classes).sum(0)
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
