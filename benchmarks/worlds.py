"""A model that learned wrong labels and fails, with the sets that methods are given and those that judge them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from sources import Arrays
from torch import Tensor, nn
from training import Augment, Augmented

from amends.data import flip_labels, views
from amends.trace import Trace

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class World:
    """A model, its training set, which of its labels are wrong, and the failures.

    `query` and `guard` are given to the methods; `holdout` and `remaining` only judge. `others` are models trained on
    the same data from other initial weights; a `share` of D is taken as causes.
    """

    net: nn.Module
    train: Pair
    wrong: np.ndarray
    sets: dict[str, Pair]
    accuracy: float
    trace: Trace
    others: tuple[nn.Module, ...]
    share: float
    refit: Callable[[Tensor], nn.Module]  # trains from scratch on the examples at these positions
    large: bool = False  # 50,000 images and millions of parameters: curvature from a part, shorter treatments
    augment: Augment | None = None  # the augmentation the model was trained with

    @property
    def known(self) -> Any:
        """The training set as a user would give it: with its augmentation, if there is one."""
        return self.train if self.augment is None else views(self.train, Augmented(*self.train, self.augment))

    @property
    def held_out(self) -> tuple[Pair, Pair]:
        """Failures and right examples as a user would have them: those given to the methods together with those that
        judge."""
        (x, y), (rest_x, rest_y) = (
            [torch.cat(part) for part in zip(*(self.sets[name] for name in names), strict=True)]
            for names in (("query", "holdout"), ("guard", "remaining"))
        )
        return (x, y), (rest_x, rest_y)

    @cached_property
    def out_of_fold(self) -> np.ndarray:
        """p(given label) of every training example by a model trained on the other four fifths of D."""
        x, y = self.train
        out = torch.zeros(len(x))
        drawn = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))  # some sets come class by class
        for fold in drawn.split(-(-len(x) // 5)):
            rest = torch.ones(len(x), dtype=torch.bool)
            rest[fold] = False
            net = self.refit(rest.nonzero().squeeze(1).to(x.device))
            with torch.no_grad():
                out[fold] = outputs(net, x[fold]).softmax(1).gather(1, y[fold, None])[:, 0].cpu()
        return out.numpy()

    def accuracies(self, model: nn.Module) -> dict[str, float]:
        with torch.no_grad():
            shown = {k: self.sets[k] for k in ("query", "holdout", "remaining")}
            return {k: float((outputs(model, x).argmax(1) == y).double().mean()) for k, (x, y) in shown.items()}


def outputs(model: nn.Module, x: Tensor) -> Tensor:
    return torch.cat([model(part) for part in x.split(1024)])


class Planted(Protocol):
    """Training examples, some with wrong labels, and test examples."""

    @property
    def train(self) -> Arrays: ...
    @property
    def test(self) -> Arrays: ...
    def labels(self, seed: int) -> Arrays: ...


@dataclass(frozen=True, eq=False)
class Flipped:
    """Training examples whose labels are flipped, and test examples. `flips` go from label to label, or from `kinds` of
    training examples to labels."""

    train: Arrays
    test: Arrays
    flips: dict[tuple[int, int], float]
    kinds: np.ndarray | None = None

    def labels(self, seed: int) -> Arrays:
        """The training labels, and which of them are wrong."""
        flipped, wrong = flip_labels(self.train[1] if self.kinds is None else self.kinds, self.flips, seed)
        return np.where(wrong, flipped, self.train[1]), wrong


@dataclass(frozen=True)
class Recipe:
    """How networks are made and trained, and how many."""

    make: Callable[[], nn.Module]
    fit: Callable[[nn.Module, Tensor, Tensor], Trace]
    models: int = 3
    augment: Augment | None = None  # the augmentation that `fit` uses

    def fitted(self, x: Tensor, y: Tensor, seed: int) -> tuple[nn.Module, Trace]:
        torch.manual_seed(seed)
        net = self.make().to(x.device)
        trace = self.fit(net, x, y)
        return net.eval(), trace


def world(
    data: Planted, recipe: Recipe, seed: int, device: str, *, query: int | None = None, share: float = 0.15,
    large: bool = False,
) -> World:  # fmt: skip
    """Train on wrong labels, find the failures among the test examples, and split them. The query gets `query` of them,
    or half."""
    labels, wrong = data.labels(seed)
    x, xt = (torch.tensor(inputs, device=device) for inputs in (data.train[0], data.test[0]))
    y, yt = torch.tensor(labels, device=device), torch.tensor(data.test[1], device=device)
    (net, trace), *others = (recipe.fitted(x, y, seed + 1000 * i) for i in range(recipe.models))
    with torch.no_grad():
        correct = (outputs(net, xt).argmax(1) == yt).cpu().numpy()
    rng = np.random.default_rng([seed, 5])
    failures, rest = rng.permutation(np.flatnonzero(~correct)), rng.permutation(np.flatnonzero(correct))
    first = len(failures) // 2 if query is None else query
    parts = {"query": failures[:first], "holdout": failures[first:], "guard": rest[::2], "remaining": rest[1::2]}
    sets = {k: (xt[torch.tensor(at, device=device)], yt[torch.tensor(at, device=device)]) for k, at in parts.items()}

    def refit(at: Tensor) -> nn.Module:
        return recipe.fitted(x[at], y[at], seed)[0]

    return World(
        net, (x, y), wrong, sets, float(correct.mean()), trace, tuple(other for other, _ in others), share, refit,
        large, recipe.augment,
    )  # fmt: skip
