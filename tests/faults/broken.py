"""Setups that are broken, each in a way of its own, on pictures, texts and a table, and what must be said of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn.functional import dropout, one_hot

from tests.faults.breaking import (
    Made,
    Read,
    Shaky,
    alphabet,
    anew,
    by_row,
    column_times,
    drawn,
    forgotten,
    held,
    labels,
    leaked,
    model,
    nonsense,
    other_words,
    outputs,
    overflown,
    prepared,
    reset_statistics,
    sets,
    shuffled,
    then,
    with_other_words,
)
from tests.faults.kinds import (
    MEAN,
    PAD,
    STD,
    TOPICS,
    WORDS,
    Reader,
    World,
    cnn,
    fitted,
    pictures,
    pixels,
    table,
    texts,
    tokens,
)

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
GUESSING, ANEW, ORDER = "and guessing would be", "but a new last layer", "seem to be in another order"
LARGE, SMALL, APART = "the outputs are large", "the outputs are small", "differ widely in mean or spread"
TAKES, NORM = "the model cannot take the inputs", "the inputs of the first batch norm have another mean or spread"
SWAPPED = "or the two are swapped"


class Broken(NamedTuple):
    """What is broken, of which world, and what must be said of it."""

    world: Callable[[], World]
    made: Made
    said: str


def of(world: Callable[[], World], cases: dict[str, tuple[Made, str]]) -> dict[str, Broken]:
    return {f"{world.__name__}: {name}": Broken(world, *case) for name, case in cases.items()}


PICTURES = of(pictures, {
    "classes by the alphabet": (labels(alphabet(DIGITS)), ORDER),
    "two classes swapped": (labels(lambda y: torch.where((y == 3) | (y == 4), 7 - y, y)), "output 3 as 4, output 4 as"),
    "labels one too high, and the last is 0": (labels(lambda y: (y + 1) % 10), ORDER),
    "labels counted from 1": (labels(lambda y: y + 1), "has label 10, but the model has 10 outputs"),
    "outputs turned round": (outputs(lambda o: o.flip(1)), "output 0 as 9"),
    "labels of train shuffled": (labels(shuffled, "train"), GUESSING),
    "labels of the evaluation set shuffled": (labels(shuffled, "evaluation"), GUESSING),
    "bytes, not numbers from 0 to 1": (prepared(lambda raw: raw.float()), LARGE),
    "mean and std forgotten": (prepared(lambda raw: raw.float() / 255), NORM),
    "mean and std forgotten in the evaluation set": (held(lambda raw: raw.float() / 255), APART),
    "divided by 255 twice": (prepared(lambda raw: (raw.float() / 255**2 - MEAN) / STD), ANEW),
    "normalised twice": (then(lambda x: (x - MEAN) / STD), NORM),
    "mean and std of other pictures": (prepared(lambda raw: (raw.float() / 255 - 0.5) / 0.5), ANEW),
    "inverted": (prepared(lambda raw: pixels(255 - raw)), ANEW),
    "inverted in the evaluation set": (held(lambda raw: pixels(255 - raw)), GUESSING),
    "transposed": (then(lambda x: x.transpose(2, 3)), ANEW),
    "upside down": (then(lambda x: x.flip(2)), ANEW),
    "channels in another order": (prepared(lambda raw: pixels(raw.flip(1))), ANEW),
    "cut at another place": (then(lambda x: x.roll((2, 2), (2, 3))), ANEW),
    "in gray": (prepared(lambda raw: pixels(raw.float().mean(1, keepdim=True).expand(-1, 3, -1, -1))), ANEW),
    "channels last": (then(lambda x: x.permute(0, 2, 3, 1)), TAKES),
    "weights of no training": (model(lambda _: cnn().eval()), ANEW),
    "the last layer of no training": (model(anew(9)), ANEW),
    "a layer in the middle of no training": (model(anew(7)), ANEW),
    "the first layer of no training": (model(anew(0)), ANEW),
    "running statistics not loaded": (model(reset_statistics), NORM),
    "probabilities for logits": (outputs(lambda o: o.softmax(1)), "look like probabilities"),
    "sigmoids for logits": (outputs(torch.sigmoid), SMALL),
    "losses for logits": (outputs(lambda o: -o.log_softmax(1)), ANEW),
    "answers of 0 and 1 for logits": (outputs(lambda o: one_hot(o.argmax(1), 10).float()), "cannot be differentiated"),
    "constant outputs": (outputs(lambda o: o * 0 + torch.arange(10.0)), ANEW),
    "outputs that are sometimes NaN": (outputs(lambda o: o / (o[:, :1] < 3)), "output is NaN or infinite"),
    "dropout that stays on": (model(lambda net: Read(net, lambda x: dropout(x, 0.4, True))), "outputs each time"),
    "a random transform": (sets(lambda a, b: (Shaky(a), b)), "the same example differently each time"),
    "evaluation is of train": (sets(leaked), "are training examples, label and all"),
})  # fmt: skip
TEXTS = of(texts, {
    "topics by the alphabet": (labels(alphabet(TOPICS)), ORDER),
    "topics by the alphabet in the evaluation set": (labels(alphabet(TOPICS), "evaluation"), ORDER),
    "a class more than the model has": (labels(lambda y: torch.where(torch.arange(len(y)) % 9 == 0, 4, y)), "label 4"),
    "labels a row too late": (labels(lambda y: y.roll(1), "train"), GUESSING),
    "a vocabulary in another order": (prepared(lambda raw: tokens(raw, other_words(1))), GUESSING),
    "another vocabulary in the evaluation set": (held(lambda raw: tokens(raw, other_words(1))), GUESSING),
    "numbers of words one too high": (then(lambda t: (t + (t > PAD)).clamp(max=len(WORDS) + 1)), ANEW),
    "not in lower case": (prepared(lambda raw: tokens(raw, lower=False)), "are training examples, label and all"),
    "words the model has no row for": (then(lambda t: t + 40), TAKES),
    "weights for another vocabulary": (model(lambda _: fitted(Reader(), *with_other_words(), 8)), GUESSING),
    "embeddings not loaded": (model(forgotten("words")), GUESSING),
    "answers for logits": (outputs(lambda o: o.argmax(1)), "expected [batch, classes]"),
    "logits and something else": (outputs(lambda o: (o, o)), "returns a tuple"),
    "train and evaluation swapped": (sets(lambda a, b: (b, a)), SWAPPED),
    "train is another set": (sets(nonsense), GUESSING),
})  # fmt: skip
TABLE = of(table, {
    "classes swapped": (labels(lambda y: 1 - y), ORDER),
    "classes swapped in the evaluation set": (labels(lambda y: 1 - y, "evaluation"), ORDER),
    "labels shuffled": (labels(shuffled, "train"), GUESSING),
    "labels are a measurement": (labels(lambda y: y + 0.25), "whole number"),
    "not standardised": (prepared(lambda x: x.float()), GUESSING),
    "standardised twice": (lambda w: prepared(lambda x: w.prepare(w.prepare(x)))(w), LARGE),
    "each row scaled, not each column": (prepared(by_row), GUESSING),
    "a column in other units in the evaluation set": (then(column_times(100), alone=True), "columns of train"),
    "a column missing": (then(lambda x: x[:, 1:]), TAKES),
    "a missing value": (then(lambda x: torch.where(drawn(x.numel()).reshape(x.shape) == 7, torch.nan, x)), "NaN"),
    "weights of no training": (model(anew(0, 2)), ANEW),
    "one output for two classes": (outputs(lambda o: o[:, 1:] - o[:, :1]), "with 2 classes or more"),
    "outputs a thousandth as large": (outputs(lambda o: o / 1000), SMALL),
    "in half precision": (model(lambda net: net.half()), "computed in float32"),
    "weights that are not finite": (model(overflown), "holds NaN or infinity"),
    "train and evaluation swapped": (sets(lambda a, b: (b, a)), ANEW),
    "a model that cannot learn": (model(lambda net: net.requires_grad_(False)), "no trainable parameters"),
    "a module that is no module": (lambda w: (w.net.state_dict(), *w.given()[1:]), "nn.Module"),
})  # fmt: skip
BROKEN = {**PICTURES, **TEXTS, **TABLE}
