"""The result of `amends.repair`, compared with further training with nothing removed, and without the wrong labels.

    python benchmarks/repairs.py --data DIR --settings "Fashion, weak" Clean --seeds 5 --jobs 2 --out rows.csv

DIR as in quality.py. Accuracies are overall: failures and right examples in the proportion they occurred. They are
given before, after the repair, after further training with nothing removed (the control of the repair), and after
further training without the wrong labels. Those of a repair are measured on the half it did not search with. AP is that
of the search; the AP of the loss is given too. Rows that are in the file already are not computed again. Runs on torch
and numpy alone, one thread each; `--device cuda` for large models.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, get_type_hints

import numpy as np
import price
import torch
from settings import SETTINGS
from torch.nn import functional as nnf
from worlds import outputs

import amends
from amends.evaluation.rankings import average_precision

FIGURES = ("loss", "precision", "before", "nothing", "without_wrong", "repaired")


class Row(NamedTuple):
    """One repair."""

    setting: str
    seed: int
    loss: float
    precision: float
    before: float
    nothing: float
    without_wrong: float
    repaired: float
    removed: int
    wrong: int  # of those removed
    verdict: str


def one(task: tuple[str, str, int, str, float]) -> Row | None:
    """One repair; None if it is too late to begin."""
    folder, setting, seed, device, until = task
    if time.time() > until:
        return None
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    world, _ = price.trained(folder, setting, seed, device)
    failures, right = world.held_out
    result = amends.repair(world.net, world.known, failures, right, seed=seed)
    control = next(row for row in result.metrics["curve"] if row["by"] == "nothing")
    share, wrong = len(failures[1]) / (len(failures[1]) + len(right[1])), world.wrong
    clean, nan = (amends.treat(world.net, world.known, wrong, seed=seed) if wrong.any() else None), float("nan")
    with torch.no_grad():
        loss = nnf.cross_entropy(outputs(world.net, world.train[0]), world.train[1], reduction="none").cpu().numpy()
        accuracies = (
            [float((outputs(clean, x).argmax(1) == y).double().mean()) for x, y in (failures, right)] if clean else []
        )
    return Row(
        setting,
        seed,
        average_precision(loss, wrong) if accuracies else nan,
        average_precision(result.influence.scores, wrong) if accuracies else nan,
        result.metrics["overall"]["before"],
        share * control["holdout"] + (1 - share) * control["remaining"],
        share * accuracies[0] + (1 - share) * accuracies[1] if accuracies else nan,
        result.metrics["overall"]["after"],
        result.metrics["removed"],
        int(wrong[result.removed].sum()),
        result.verdict,
    )


def kept(path: Path) -> list[Row]:
    """The rows of a file."""
    if not path.exists():
        return []
    kinds = get_type_hints(Row)
    with path.open(encoding="utf8", newline="") as f:
        return [Row(**{name: kinds[name](value) for name, value in row.items()}) for row in csv.DictReader(f)]


def write(path: Path, rows: list[Row]) -> None:
    with path.open("w", encoding="utf8", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows([Row._fields, *sorted(rows)])


def table(rows: list[Row]) -> str:
    lines = ["| setting | AP of the loss | AP | before | nothing removed | wrong labels removed | repaired | refused |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for setting in dict.fromkeys(row.setting for row in rows):
        mine = [row for row in rows if row.setting == setting]
        columns = [[getattr(row, name) for row in mine] for name in FIGURES]
        figures = " | ".join("" if np.isnan(c).any() else f"{np.mean(c):.3f} ± {np.std(c):.3f}" for c in columns)
        lines.append(f"| {setting} | {figures} | {sum(r.verdict == 'not repaired' for r in mine)} of {len(mine)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2, help="repairs at once")
    parser.add_argument("--device", default="cpu", help="where models are trained and repaired")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no repair is begun")
    parser.add_argument("--out", type=Path, help="a file for the rows; a second run goes on")
    args = parser.parse_args()
    rows = [] if args.out is None else kept(args.out)
    stored, until = {row[:2] for row in rows}, time.time() + args.seconds
    tasks = [(args.data, setting, seed, args.device, until) for setting in args.settings for seed in range(args.seeds)
            if (setting, seed) not in stored]  # fmt: skip
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for finished in as_completed([pool.submit(one, task) for task in tasks]):
            if (row := finished.result()) is not None:
                rows.append(row)
                if args.out is not None:
                    write(args.out, rows)
    print(table(sorted(rows, key=lambda row: (list(SETTINGS).index(row.setting), row.seed))))


if __name__ == "__main__":
    main()
