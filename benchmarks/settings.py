"""The settings that methods are compared in: real data with planted wrong labels, and a model that failed.

A: MNIST as in the paper, flipped one way or both. C: scikit-learn's 8x8 digits with models that memorised their noise.
D: questions to a bank in two classes, one of them flipped. Fashion: Fashion-MNIST, flipped along its usual confusions.
Banking: 77 intents, flipped between similar ones. Reviews: film reviews, positive or negative, one side flipped.
Census: rows of a table, wrong for one group of people. CIFAR: all of CIFAR-10 and a ResNet-50, for a GPU. Clean: digits
without planted wrong labels.

Random: some of these with wrong labels spread over all classes. Marked: garments of any kind get one label, but only
where a corner of the image is white. Weak: few garments, few epochs, flips between similar ones. Two: shirts and coats,
some shirts labelled as coats. Confused: a tenth or a fifth of all labels is wrong where a weaker model is unsure, drawn
from its predictions. Near: the same, by the distance to other classes. Well: CIFAR-10 with crops, flips and more
epochs. Part: 10,000 images of it. Normed: a network with batch norm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mistakes
import numpy as np
from mistakes import Belief, Mistaken
from networks import MeanOfWords, paper_cnn, residual_cnn, small_cnn, small_mlp, strided_cnn
from resnet import ResNet, resnet18
from sources import Arrays, Data, numbered, pictures, with_corner
from torch import nn
from training import (
    for_epochs,
    in_half_precision,
    shifted_and_mirrored,
    shortly,
    until_it_memorised,
    until_it_stops_improving,
    with_crops_and_flips,
)
from worlds import Flipped, Planted, Recipe, World, world

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
BAG, MARKED = 8, 10  # the label most marked images get; their kind, in addition to the ten classes
OBJECTS = {(3, 5): 0.4, (0, 2): 0.4, (9, 1): 0.4, (4, 7): 0.4}  # cat, plane, truck, deer
CONFUSED = {(1, 7): 0.35, (7, 1): 0.35, (4, 9): 0.35, (9, 4): 0.35, (3, 8): 0.35, (8, 3): 0.35}


WEAK = {
    (6, 0): 0.4, (4, 2): 0.4, (2, 4): 0.4, (9, 7): 0.4, (7, 9): 0.3, (0, 6): 0.3, (3, 0): 0.3, (5, 7): 0.3,
}  # fmt: skip
COAT, SHIRT = 4, 6


Wrong = dict[tuple[int, int], float] | tuple[float, Belief]  # flips of labels, or a share and the belief that errs


def planted(train: Arrays, test: Arrays, wrong: Wrong, device: str, kinds: np.ndarray | None = None) -> Planted:
    if isinstance(wrong, dict):
        return Flipped(train, test, wrong, kinds)
    return Mistaken(train, test, *wrong, device)


def strewn(share: float, classes: int) -> dict[tuple[int, int], float]:
    """Flips that change this share of every class, evenly to all others."""
    pairs = [(a, b) for a in range(classes) for b in range(classes) if a != b]
    return dict.fromkeys(pairs, share / (classes - 1))


def mnist_like(
    stored: dict[str, np.ndarray], seed: int, device: str, size: int, make: Callable[[], nn.Module], flips: Wrong,
    marked: float = 0.0,
) -> World:  # fmt: skip
    """`size` of the 60,000 training images; failures among the 10,000 test images. With `marked`, that share of both
    gets a mark, `flips` apply to the kind `MARKED`, and bags keep their label."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(stored["x_train"]))[:size]
    x, y, xt, yt = (
        stored["x_train"][chosen],
        stored["y_train"][chosen].astype(np.int64),
        stored["x_test"],
        stored["y_test"],
    )
    kinds = None
    if marked:
        at, at_test = (rng.random(len(images)) < marked for images in (x, xt))
        x, xt, kinds = with_corner(x, at), with_corner(xt, at_test), np.where(at & (y != BAG), MARKED, y)
    x, xt = pictures(x, xt, 255.0)
    data = planted((x, y), (xt, yt.astype(np.int64)), flips, device, kinds)
    return world(data, Recipe(make, until_it_stops_improving), seed, device)


def digits(
    stored: dict[str, np.ndarray], seed: int, device: str, make: Callable[[], nn.Module], flips: Wrong = CONFUSED
) -> World:
    """500 of the 1,797 digits for training. The query is 50 of the failures among the rest, or half of them if nothing
    was flipped."""
    order = np.random.default_rng(seed).permutation(len(stored["images"]))
    images, labels = stored["images"][order], stored["target"][order].astype(np.int64)
    x, xt = pictures(images[:500], images[500:], 16.0)
    data = planted((x, labels[:500]), (xt, labels[500:]), flips, device)
    query = 50 if flips else None
    return world(data, Recipe(make, until_it_memorised), seed, device, query=query, share=0.2)


def questions(stored: dict[str, Any], seed: int, device: str, two: bool, flips: Wrong | None = None) -> World:
    """BANKING77: all 77 intents, or 3,000 questions labelled by whether they are about a card."""
    names = stored["classes"]
    texts, labels = np.array(stored["train_text"]), np.array(stored["train_label"])
    test_labels = np.array(stored["test_label"])
    if two:
        chosen = np.random.default_rng(seed).permutation(len(texts))[:3000]
        card = np.array(["card" in name for name in names]).astype(np.int64)
        texts, labels, test_labels = texts[chosen], card[labels[chosen]], card[test_labels]
        flips = flips or {(1, 0): 0.4}
    else:
        flips = flips or {(names.index(a), names.index(b)): 0.4 for a, b in INTENTS.items()}
    x, xt, words = numbered(list(texts), stored["test_text"])
    classes = 2 if two else len(names)
    data = planted((x, labels.astype(np.int64)), (xt, test_labels.astype(np.int64)), flips, device)
    recipe = Recipe(lambda: MeanOfWords(words, classes), until_it_stops_improving)
    return world(data, recipe, seed, device, share=0.1 if two else 0.05)


def reviews(stored: dict[str, Any], seed: int, device: str) -> World:
    """Sentences about films, fresh or rotten; 4,000 for training, with 25 % of the fresh ones flipped."""
    order = np.random.default_rng(seed).permutation(len(stored["text"]))
    texts, labels = [stored["text"][i] for i in order], np.array(stored["label"])[order]
    x, xt, words = numbered(texts[:4000], texts[4000:10000])
    data = Flipped((x, labels[:4000]), (xt, labels[4000:10000]), {(1, 0): 0.25})
    return world(data, Recipe(lambda: MeanOfWords(words, 2), until_it_stops_improving), seed, device, share=0.2)


def people(rows: list[list[str]], seed: int, device: str, flips: dict | None = None) -> World:
    """Census: does a person earn more than 50,000? Both classes are equally large, with 4,000 people for training. Half
    of the women who do are labelled as not; or other `flips` of the two classes. Each word becomes a column; numbers
    (large ones as logarithms) are centred and divided by their standard deviation."""
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

    data = Flipped((x[:4000], y[:4000]), (x[4000:], y[4000:]), flips or {(2, 0): 0.5}, kinds)
    return world(data, Recipe(small, until_it_stops_improving), seed, device, share=0.1)


def centred(train: Arrays, test: Arrays) -> tuple[Arrays, Arrays]:
    """Both sets, with each channel centred and divided by its standard deviation in the training set."""
    x = train[0] / np.float32(255)
    mean, deviation = x.mean((0, 2, 3), keepdims=True), x.std((0, 2, 3), keepdims=True)
    first, second = (((a / np.float32(255) - mean) / deviation, b.astype(np.int64)) for a, b in (train, test))
    return first, second


def objects(
    train: Arrays, test: Arrays, seed: int, device: str, make: Callable[[], nn.Module] = ResNet, flips: Wrong = OBJECTS,
    well: bool = False,
) -> World:  # fmt: skip
    """CIFAR-10; with `well`, trained with crops and flips."""
    data = planted(*centred(train, test), flips, device)
    fit, augment = (with_crops_and_flips, shifted_and_mirrored) if well else (in_half_precision, None)
    return world(data, Recipe(make, fit, 1, augment), seed, device, large=True)


def few_objects(train: Arrays, test: Arrays, seed: int, device: str, flips: Wrong) -> World:
    """10,000 images of CIFAR-10 and a small network with batch norm, right on half of the others: for a CPU."""
    chosen = np.random.default_rng(seed).permutation(len(train[0]))[:10_000]
    data = planted(*centred((train[0][chosen], train[1][chosen]), test), flips, device)
    return world(data, Recipe(lambda: residual_cnn(channels=3), shortly, 1), seed, device)


def few_garments(
    stored: dict[str, np.ndarray], seed: int, device: str, make: Callable[[], nn.Module] = strided_cnn
) -> World:
    """2,500 images and 6 epochs, so that about two thirds of the predictions are right; failures among 4,000 others."""
    rng = np.random.default_rng(seed)
    chosen, tested = rng.permutation(60_000)[:2500], rng.permutation(10_000)[:4000]
    x, xt = pictures(stored["x_train"][chosen], stored["x_test"][tested], 255.0)
    y, yt = (stored[name][at].astype(np.int64) for name, at in (("y_train", chosen), ("y_test", tested)))
    return world(Flipped((x, y), (xt, yt), WEAK), Recipe(make, for_epochs(6), models=1), seed, device)


def two_garments(stored: dict[str, np.ndarray], seed: int, device: str) -> World:
    """3,000 coats and shirts; 30 % of the shirts are labelled as coats."""
    train, test = (np.flatnonzero(np.isin(stored[name], (COAT, SHIRT))) for name in ("y_train", "y_test"))
    chosen = np.random.default_rng(seed).permutation(train)[:3000]
    x, xt = pictures(stored["x_train"][chosen], stored["x_test"][test], 255.0)
    y, yt = ((stored[name][at] == SHIRT).astype(np.int64) for name, at in (("y_train", chosen), ("y_test", test)))
    return world(Flipped((x, y), (xt, yt), {(1, 0): 0.3}), Recipe(strided_cnn, for_epochs(12), models=1), seed, device)


def human_like(name: str, pixels: Wrong, words: Wrong, small: Wrong) -> dict[str, Callable[[Data, int, str], World]]:
    return {
        f"C, {name}": lambda d, seed, on: digits(d.arrays("digits"), seed, on, small_mlp, pixels),
        f"Fashion, {name}": lambda d, seed, on: mnist_like(
            d.arrays("fashion_mnist"), seed, on, 6000, strided_cnn, pixels
        ),
        f"Banking, {name}": lambda d, seed, on: questions(d.banking(), seed, on, False, words),
        f"CIFAR, {name}": lambda d, seed, on: objects(*d.all_of_cifar(), seed, on, flips=small),
        f"CIFAR, {name}, well": lambda d, seed, on: objects(
            *d.all_of_cifar(), seed, on, make=resnet18, flips=small, well=True
        ),
        f"CIFAR, {name}, part": lambda d, seed, on: few_objects(*d.all_of_cifar(), seed, on, small),
    }


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
    "Fashion, weak": lambda d, seed, on: few_garments(d.arrays("fashion_mnist"), seed, on),
    "Fashion, weak, normed": lambda d, seed, on: few_garments(d.arrays("fashion_mnist"), seed, on, residual_cnn),
    "Fashion, normed": lambda d, seed, on: mnist_like(
        d.arrays("fashion_mnist"), seed, on, 6000, residual_cnn, GARMENTS
    ),
    "Fashion, two": lambda d, seed, on: two_garments(d.arrays("fashion_mnist"), seed, on),
    "CIFAR": lambda d, seed, on: objects(*d.all_of_cifar(), seed, on),
    "CIFAR, well": lambda d, seed, on: objects(*d.all_of_cifar(), seed, on, make=resnet18, well=True),
    "CIFAR, well, ResNet-50": lambda d, seed, on: objects(*d.all_of_cifar(), seed, on, well=True),
    "Clean": lambda d, seed, on: digits(d.arrays("digits"), seed, on, small_mlp, {}),
    "CIFAR, clean, well": lambda d, seed, on: objects(*d.all_of_cifar(), seed, on, make=resnet18, flips={}, well=True),
}
for name, pixels, words, small in (
    ("confused", mistakes.weaker(mistakes.linear), mistakes.weaker(mistakes.of_words, 0.5, 20),
     mistakes.weaker(mistakes.tiny_cnn)),
    ("near", mistakes.nearest(), mistakes.nearest(words=True), mistakes.nearest()),
):  # fmt: skip
    for share in (0.1, 0.2):
        SETTINGS |= human_like(f"{name} {share:.0%}", (share, pixels), (share, words), (share, small))
