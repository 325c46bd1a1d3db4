"""Pictures, texts and a table, each with a model that was trained on them as its user did: the model fails where labels
of train are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor, nn

from amends.data import flip_labels

Pair = tuple[Any, Tensor]
WORDS = [f"word{i}" for i in range(160)]
TOPICS = ("sport", "music", "cooking", "weather")
PAD, UNKNOWN, LENGTH = 0, 1, 14


@dataclass(frozen=True)
class World:
    """Raw inputs as they are stored, what makes of them what the model takes, and the model that learned so."""

    net: nn.Module
    prepare: Callable[[Any], Tensor]
    train: Pair
    held: Pair

    def given(self) -> tuple[nn.Module, Pair, Pair]:
        """Model, train and evaluation set, all as they should be."""
        return self.net, self.prepared(self.train), self.prepared(self.held)

    def prepared(self, pair: Pair, prepare: Callable[[Any], Tensor] | None = None) -> Pair:
        return (prepare or self.prepare)(pair[0]), pair[1]


def fitted(net: nn.Module, x: Tensor, y: Tensor, epochs: int, rate: float = 5e-3) -> nn.Module:
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    return net.eval()


def cnn(classes: int = 10) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3, padding=1),
        nn.ReLU(), nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, classes),
    )  # fmt: skip


MEAN, STD = torch.tensor([0.3, 0.28, 0.34])[:, None, None], torch.tensor([0.3, 0.17, 0.12])[:, None, None]


def pixels(raw: Tensor) -> Tensor:
    """From bytes to what the model was trained with."""
    return (raw.float() / 255 - MEAN) / STD


@cache
def pictures() -> World:
    """Digits in orange on blue, as bytes; nearly half of the 1s were learned as 7, and of the 9s as 4."""
    images, labels = load_digits(return_X_y=True)
    g = torch.Generator().manual_seed(0)
    order = torch.randperm(len(images), generator=g)[:1200]
    ink = (torch.tensor(images) / 16)[order].reshape(-1, 1, 8, 8)
    paint, ground = torch.tensor([0.9, 0.6, 0.2])[:, None, None], torch.tensor([0.1, 0.2, 0.4])[:, None, None]
    light = 0.9 + 0.2 * torch.rand(len(ink), 1, 1, 1, generator=g)
    raw = ((ink * paint + (1 - ink) * ground) * light * 255).clamp(0, 255).to(torch.uint8)
    y = torch.tensor(labels)[order]
    given = torch.tensor(flip_labels(y[:600].numpy(), {(1, 7): 0.45, (9, 4): 0.45}, 0)[0])
    torch.manual_seed(0)
    return World(fitted(cnn(), pixels(raw[:600]), given, 12), pixels, (raw[:600], given), (raw[600:], y[600:]))


class Reader(nn.Module):
    """Words in their order: an embedding, a convolution over three words, the strongest of each feature."""

    def __init__(self, words: int = len(WORDS) + 2, classes: int = len(TOPICS)):
        super().__init__()
        self.words = nn.Embedding(words, 16, padding_idx=PAD)
        self.phrase = nn.Conv1d(16, 24, 3, padding=1)
        self.topic = nn.Linear(24, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.topic(self.phrase(self.words(tokens).transpose(1, 2)).relu().amax(2))


def tokens(texts: Sequence[str], words: Sequence[str] = tuple(WORDS), lower: bool = True) -> Tensor:
    known = {word: i for i, word in enumerate(words, UNKNOWN + 1)}
    rows = [[known.get(w, UNKNOWN) for w in (t.lower() if lower else t).split()][:LENGTH] for t in texts]
    return torch.tensor([row + [PAD] * (LENGTH - len(row)) for row in rows])


@cache
def texts() -> World:
    """Sentences with a few words of their topic among common ones; a third of those on music was learned as cooking."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1000)
    said = []
    for topic in y:
        own = rng.choice(np.arange(topic, 80, 4), rng.integers(1, 4))
        other = rng.choice(np.arange(80, 160), rng.integers(5, 10))
        said.append(" ".join(WORDS[i].title() for i in rng.permutation([*own, *other])))
    given = torch.tensor(flip_labels(y[:500], {(1, 2): 0.4}, 0)[0])
    torch.manual_seed(0)
    net = fitted(Reader(), tokens(said[:500]), given, 12)
    return World(net, tokens, (said[:500], given), (said[500:], torch.tensor(y[500:])))


def standard(x: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
    return ((x - centre) / spread).float()


@cache
def table() -> World:
    """Measurements of tumours; a third of the malignant ones was learned as benign."""
    found = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(found.target))
    x, y = torch.tensor(found.data[order]), torch.tensor(found.target[order]).long()
    given = torch.tensor(flip_labels(y[:280].numpy(), {(0, 1): 0.35}, 0)[0])
    prepare = partial(standard, centre=x[:280].mean(0), spread=x[:280].std(0))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    return World(fitted(net, prepare(x[:280]), given, 30), prepare, (x[:280], given), (x[280:], y[280:]))


def evaluated(net: nn.Module, train: Pair, held: Pair) -> tuple[nn.Module, Pair, Pair, Pair]:
    """As a stranger makes the four arguments of a repair: by running the model."""
    with torch.no_grad():
        ok = net(held[0]).argmax(1) == held[1]
    failures, remaining = ((held[0][part], held[1][part]) for part in (~ok, ok))
    return net, train, failures, remaining
