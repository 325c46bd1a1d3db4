"""Wrong labels like those people give: in all classes, more often for hard examples, and with a similar class.

No human labels are used. A stand-in that knows less than the model makes the mistakes: a weaker model, or the distance
to the nearest examples of other classes. It gives log odds for each example. A person knows more, so the log odds of
the true class are raised until the wanted share of labels is wrong; then the labels are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from networks import MeanOfWords
from sources import Arrays
from torch import Tensor, nn
from torch.nn import functional as nnf

Belief = Callable[[np.ndarray, np.ndarray, int, str], np.ndarray]


@dataclass(frozen=True, eq=False)
class Mistaken:
    """Training examples, a `share` of which gets wrong labels drawn from this `belief`, and test examples."""

    train: Arrays
    test: Arrays
    share: float
    belief: Belief
    device: str = "cpu"

    def labels(self, seed: int) -> Arrays:
        """The training labels, and which of them are wrong."""
        x, y = self.train
        odds = self.belief(x, y, seed, self.device)
        labels = drawn(odds, y, self.share, np.random.default_rng([seed, 17]))
        return labels, labels != y


def drawn(odds: np.ndarray, y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a label for each example from the log odds of all classes. Those of the true class are raised by an amount
    found by bisection, such that the expected share of wrong labels is `share`."""
    odds = odds - odds.max(1, keepdims=True)
    low, high = -30.0, 30.0
    for _ in range(60):
        raised = (low + high) / 2
        wrong = 1 - _chances(odds, y, raised)[np.arange(len(y)), y]
        low, high = (raised, high) if wrong.mean() > share else (low, raised)
    reached = _chances(odds, y, high).cumsum(1)
    return (reached < rng.random((len(y), 1)) * reached[:, -1:]).sum(1).astype(y.dtype)


def _chances(odds: np.ndarray, y: np.ndarray, raised: float) -> np.ndarray:
    odds = odds.astype(np.float64).copy()
    odds[np.arange(len(y)), y] += raised
    odds = np.exp(odds - odds.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)


def weaker(make: Callable[[np.ndarray, int], nn.Module], part: float = 0.2, epochs: int = 5) -> Belief:
    """The belief of a smaller model trained on true labels of a part of D. There are two, each asked about the half of
    D it was not trained on."""

    def belief(x: np.ndarray, y: np.ndarray, seed: int, device: str) -> np.ndarray:
        classes = int(y.max()) + 1
        inputs, labels = torch.tensor(x, device=device), torch.tensor(y, device=device)
        halves = np.array_split(np.random.default_rng([seed, 19]).permutation(len(y)), 2)
        odds = np.zeros((len(y), classes), dtype=np.float32)
        for own_half, other_half in (halves, halves[::-1]):
            torch.manual_seed(seed)
            net = make(x, classes).to(device)
            fitted_on = torch.tensor(own_half[: max(1, round(part * len(y)))], device=device)
            _fit(net, inputs[fitted_on], labels[fitted_on], epochs)
            with torch.no_grad():
                parts = [
                    net(inputs[at]).log_softmax(1).cpu() for at in torch.tensor(other_half, device=device).split(1024)
                ]
            odds[other_half] = torch.cat(parts).numpy()
        return odds

    return belief


def _fit(net: nn.Module, x: Tensor, y: Tensor, epochs: int) -> None:
    """Adam 1e-3 in batches of 32."""
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), device=x.device).split(32):
            optimiser.zero_grad()
            nnf.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()


def linear(x: np.ndarray, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(x.shape[1:])), classes))


def tiny_cnn(x: np.ndarray, classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(x.shape[1], 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * 16, classes),
    )  # fmt: skip


def of_words(x: np.ndarray, classes: int) -> nn.Module:
    return MeanOfWords(int(x.max()) + 1, classes, width=16)


def nearest(neighbours: int = 5, words: bool = False) -> Belief:
    """The belief of somebody who compares an example with the nearest ones of every class, by its inputs (for texts, by
    the words they contain): how much nearer they are on average, in units of the median difference between the two
    nearest classes."""

    def belief(x: np.ndarray, y: np.ndarray, seed: int, device: str) -> np.ndarray:
        points = torch.tensor(_bags(x) if words else x, device=device).flatten(1).float()
        distance = np.zeros((len(y), int(y.max()) + 1), dtype=np.float32)
        for at in torch.arange(len(y), device=device).split(512):
            distances = torch.cdist(points[at], points)
            distances[torch.arange(len(at), device=device), at] = torch.inf  # not with itself
            for kind in range(distance.shape[1]):
                to_kind = distances[:, torch.tensor(np.flatnonzero(y == kind), device=device)]
                k = min(neighbours, to_kind.shape[1])
                distance[at.cpu().numpy(), kind] = (
                    to_kind.topk(k, largest=False).values.nan_to_num(posinf=1e9).mean(1).cpu()
                )
        smallest = np.partition(distance, 1, axis=1)
        return -distance / max(float(np.median(smallest[:, 1] - smallest[:, 0])), 1e-9)

    return belief


def _bags(texts: np.ndarray) -> np.ndarray:
    """The words each text contains, with less weight for frequent ones; each row has length one."""
    bags = np.zeros((len(texts), int(texts.max()) + 1), dtype=np.float32)
    bags[np.arange(len(texts))[:, None], texts] = 1
    bags[:, 0] = 0
    bags *= np.log(len(texts) / np.maximum(1, bags.sum(0)))
    return bags / np.maximum(np.linalg.norm(bags, axis=1, keepdims=True), 1e-9)
