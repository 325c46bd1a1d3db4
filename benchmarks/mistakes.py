"""Wrong labels as people give them: hard examples more often, taken for what they resemble, in all classes.

Nobody's labels are used. A stand-in that sees less than the model does errs for it: a weaker model, or the distance to
the nearest examples of other classes. What it believes of an example are log odds; a person knows more, so those of
the true class are raised, as much as it takes for the wanted share of labels to be wrong, and the label is drawn.
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
    """Examples to train on, of which `share` are given a wrong label by somebody of this `belief`, and to test with."""

    train: Arrays
    test: Arrays
    share: float
    belief: Belief
    device: str = "cpu"

    def labels(self, seed: int) -> Arrays:
        """Those to train on, and which of them are wrong."""
        x, y = self.train
        odds = self.belief(x, y, seed, self.device)
        given = drawn(odds, y, self.share, np.random.default_rng([seed, 17]))
        return given, given != y


def drawn(odds: np.ndarray, y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """A label of each example, from these log odds of every class. How much those of the true class are raised is
    found by halving an interval; the expected share of wrong labels is then the wanted one."""
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
    """Of a smaller model with true labels of a part of D: two of them, each for the half it learned nothing of."""

    def belief(x: np.ndarray, y: np.ndarray, seed: int, device: str) -> np.ndarray:
        classes = int(y.max()) + 1
        inputs, labels = torch.tensor(x, device=device), torch.tensor(y, device=device)
        halves = np.array_split(np.random.default_rng([seed, 19]).permutation(len(y)), 2)
        odds = np.zeros((len(y), classes), dtype=np.float32)
        for shown, asked in (halves, halves[::-1]):
            torch.manual_seed(seed)
            net = make(x, classes).to(device)
            some = torch.tensor(shown[: max(1, round(part * len(y)))], device=device)
            _fit(net, inputs[some], labels[some], epochs)
            with torch.no_grad():
                parts = [net(inputs[at]).log_softmax(1).cpu() for at in torch.tensor(asked, device=device).split(1024)]
            odds[asked] = torch.cat(parts).numpy()
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
    """Of who compares an example with the nearest ones of every class, in what the inputs are (of a text which words
    it has): how much nearer they are on average, in units of the usual difference between the two nearest classes."""

    def belief(x: np.ndarray, y: np.ndarray, seed: int, device: str) -> np.ndarray:
        points = torch.tensor(_bags(x) if words else x, device=device).flatten(1).float()
        far = np.zeros((len(y), int(y.max()) + 1), dtype=np.float32)
        for at in torch.arange(len(y), device=device).split(512):
            distances = torch.cdist(points[at], points)
            distances[torch.arange(len(at), device=device), at] = torch.inf  # not with itself
            for kind in range(far.shape[1]):
                there = distances[:, torch.tensor(np.flatnonzero(y == kind), device=device)]
                k = min(neighbours, there.shape[1])
                far[at.cpu().numpy(), kind] = there.topk(k, largest=False).values.nan_to_num(posinf=1e9).mean(1).cpu()
        two = np.partition(far, 1, axis=1)
        return -far / max(float(np.median(two[:, 1] - two[:, 0])), 1e-9)

    return belief


def _bags(texts: np.ndarray) -> np.ndarray:
    """Which words each text has, the frequent ones counting less, of length one."""
    has = np.zeros((len(texts), int(texts.max()) + 1), dtype=np.float32)
    has[np.arange(len(texts))[:, None], texts] = 1
    has[:, 0] = 0
    has *= np.log(len(texts) / np.maximum(1, has.sum(0)))
    return has / np.maximum(np.linalg.norm(has, axis=1, keepdims=True), 1e-9)
