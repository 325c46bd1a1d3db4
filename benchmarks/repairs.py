"""What `amends.repair` hands back, beside training on with nothing removed and without the wrong labels.

    python benchmarks/repairs.py --data DIR --settings "Fashion, weak" Clean --seeds 5 --jobs 2

DIR as in quality.py. Accuracies are overall, failures and right examples as they occurred: before, after the repair,
trained on with nothing removed (the control of the repair), and trained on without the wrong labels. Those of a repair
are on the half of both that it did not search with. Runs on torch and numpy alone, one thread each.
"""

from __future__ import annotations

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import torch
from settings import SETTINGS, Data
from worlds import outputs

import amends
from amends.evaluation.rankings import average_precision

FIGURES = ("precision", "before", "nothing", "without_wrong", "repaired")


class Row(NamedTuple):
    """One repair."""

    precision: float
    before: float
    nothing: float
    without_wrong: float
    repaired: float
    removed: int
    verdict: str


def one(todo: tuple[str, str, int]) -> Row:
    folder, setting, seed = todo
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    world = SETTINGS[setting](Data(folder), seed, "cpu")
    failures, right = (
        tuple(torch.cat(part) for part in zip(*(world.sets[name] for name in names), strict=True))
        for names in (("query", "holdout"), ("guard", "remaining"))
    )
    result = amends.repair(world.net, world.train, failures, right, seed=seed)
    control = next(row for row in result.metrics["curve"] if row["by"] == "nothing")
    share, wrong = len(failures[1]) / (len(failures[1]) + len(right[1])), world.wrong
    clean = amends.treat(world.net, world.train, wrong, seed=seed) if wrong.any() else None
    with torch.no_grad():
        of = [float((outputs(clean, x).argmax(1) == y).double().mean()) for x, y in (failures, right)] if clean else []
    return Row(
        average_precision(result.influence.scores, wrong) if wrong.any() else float("nan"),
        result.metrics["overall"]["before"],
        share * control["holdout"] + (1 - share) * control["remaining"],
        share * of[0] + (1 - share) * of[1] if of else float("nan"),
        result.metrics["overall"]["after"],
        result.metrics["removed"],
        result.verdict,
    )


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--data", required=True, help="folder with the data sets")
    ask.add_argument("--settings", nargs="+", choices=list(SETTINGS), required=True)
    ask.add_argument("--seeds", type=int, default=5)
    ask.add_argument("--jobs", type=int, default=2, help="repairs at once")
    args = ask.parse_args()
    todo = [(args.data, setting, seed) for setting in args.settings for seed in range(args.seeds)]
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(one, todo))
    print("| setting | AP | before | nothing removed | wrong labels removed | repaired | refused |")
    print("|---|---|---|---|---|---|---|")
    for setting in args.settings:
        mine = [row for (_, name, _), row in zip(todo, rows, strict=True) if name == setting]
        columns = [[getattr(row, name) for row in mine] for name in FIGURES]
        figures = " | ".join(f"{np.mean(column):.3f} ± {np.std(column):.3f}" for column in columns)
        print(f"| {setting} | {figures} | {sum(row.verdict == 'not repaired' for row in mine)} of {len(mine)} |")


if __name__ == "__main__":
    main()
