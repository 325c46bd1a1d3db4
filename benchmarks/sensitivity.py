"""How much the default's ranking depends on each of its constants: AP with it halved and doubled.

    OMP_NUM_THREADS=1 python benchmarks/sensitivity.py --data DIR --settings "C, near 10%" D --first 3 --seeds 1

DIR as in quality.py. Members are tried once; only those that a constant affects are tried again. Runs on torch and
numpy alone.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import price
import torch
from members import scores_of, sets_of
from settings import SETTINGS
from worlds import World

from amends import methods
from amends.committee import trying
from amends.committee.decide import evidence, try_all
from amends.committee.trying import Evidence, Trial, on_all
from amends.evaluation.rankings import average_precision
from amends.progress import Progress
from amends.settings import DEFAULT, Identifying

EVERY = ("grad_dot", "linear", "functional", "learned loss")
CONSTANTS = {  # with the members that have to be tried again
    "edits.steps_held": ("functional",),
    "edits.strength": ("functional",),
    "edits.damping": ("linear",),
    "edits.curved": ("linear",),
    "trials.shown": EVERY[:3],
    "trials.held": ("functional",),
    "trials.judges": EVERY,
    "teaching.rate": ("learned loss",),
    "teaching.epochs": ("learned loss",),
    "teaching.weight": ("learned loss",),
    "teaching.rising": ("learned loss",),
    "right.lowest": EVERY,
    "right.lean": EVERY,
    "right.errors": EVERY,
    "weights.errors": (),
    "weights.within": (),
    "weights.least": (),
    "mistakes.spread": (),
    "mistakes.ridge": (),
    "mistakes.slope": (),
    "mistakes.mean": (),
}


def changed(settings: Identifying, constant: str, factor: float) -> Identifying:
    part, name = constant.split(".")
    was = getattr(getattr(settings, part), name)
    return replace(settings, **{part: replace(getattr(settings, part), **{name: type(was)(was * factor)})})


def tried(sets: dict[str, Any], settings: Identifying, names: tuple[str, ...]) -> tuple[Evidence, dict[str, Trial]]:
    """The evidence these members are tried with, and their trials with the scores of all of D."""
    all_members = methods.Default(settings=replace(DEFAULT, identifying=settings)).identifying(
        True, examples=len(sets["train"])
    )
    members = {name: all_members[name] for name in names}
    known = evidence(sets["train"], sets["failures"], sets["remaining"], 0, settings)
    trials = try_all(members, known, Progress(), settings).trials
    return known, {
        name: on_all(trial, trying.scores_of(members[name], trial, known), known) for name, trial in trials.items()
    }


def rows(world: World, constants: Sequence[str]) -> dict[str, float]:
    """AP with the usual constants, and with each of these halved and doubled."""
    sets, usual = sets_of(world), DEFAULT.identifying
    with torch.no_grad():
        known, trials = tried(sets, usual, EVERY)
        precisions = {"as it is": average_precision(scores_of(trials, known, usual), world.wrong)}
        for constant in constants:
            affected = CONSTANTS[constant]
            for factor in (0.5, 2.0):
                settings = changed(usual, constant, factor)
                known_then, new = tried(sets, settings, affected) if affected else (known, {})
                scores = scores_of({**trials, **new}, known_then, settings)
                precisions[f"{constant} × {factor:g}"] = average_precision(scores, world.wrong)
    return precisions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--constants", nargs="+", choices=list(CONSTANTS), default=list(CONSTANTS))
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    columns = {
        f"{setting}, {seed}": rows(price.trained(args.data, setting, seed, "cpu")[0], args.constants)
        for setting in args.settings for seed in range(args.first, args.first + args.seeds)
    }  # fmt: skip
    print(f"| | {' | '.join(columns)} | mean |\n|{'---|' * (len(columns) + 2)}")
    for name in next(iter(columns.values())):
        figures = [column[name] for column in columns.values()]
        print(f"| {name} | {' | '.join(f'{figure:.3f}' for figure in figures)} | {np.mean(figures):.3f} |")


if __name__ == "__main__":
    main()
