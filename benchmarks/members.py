"""What each member of the default finds, and what the default finds without it.

    OMP_NUM_THREADS=1 python benchmarks/members.py --data DIR --settings "C, MLP" D --seeds 2

DIR as in quality.py. Prints the AP of the loss, of every member alone, of the default with all members, and of the
default without each. Members are tried once and combined in every way. Runs on torch and numpy alone.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import price
import torch
from settings import SETTINGS
from worlds import World

from amends import methods
from amends.committee.decide import combined, evidence, try_all
from amends.committee.trying import Evidence, Trial
from amends.committee.weighing import weights_of
from amends.evaluation.rankings import average_precision
from amends.evidence.factor import Factor
from amends.evidence.params import large
from amends.evidence.prepare import prepare
from amends.progress import Progress
from amends.settings import Identifying, Settings


def scores_of(trials: Mapping[str, Trial], known: Evidence, settings: Identifying) -> np.ndarray:
    edits = {name: t for name, t in trials.items() if t.ends}
    if not edits:
        (only,) = trials.values()
        return only.scores[0].cpu().numpy()
    weights, own = (weights_of(used, settings.weights) for used in (trials, edits))
    return combined(trials, weights, own, known, settings).cpu().numpy()


def sets_of(world: World) -> dict[str, Factor]:
    """The sets that a search is given, prepared."""
    return prepare(
        world.net, None, None, price.BATCH, train=world.train, failures=world.sets["query"],
        remaining=world.sets["guard"],
    )  # fmt: skip


def row(world: World, budget: str) -> dict[str, float]:
    sets = sets_of(world)
    train, of_size = sets["train"], large(sets["train"].network.params)
    settings = Settings.of(budget, of_size).identifying
    settings = replace(settings, trials=replace(settings.trials, sample=len(train)))
    members = methods.default(budget).identifying(True, of_size, len(train))
    with torch.no_grad():
        held_out = evidence(train, sets["failures"], sets["remaining"], 0, settings)
        trials = try_all(members, held_out, Progress(), settings).trials
        loss = -train.per_example(train.network.params).cpu().numpy()
    ways = {"all": trials} | {f"{name} alone": {name: trials[name]} for name in trials}
    ways |= {f"without {name}": {n: t for n, t in trials.items() if n != name} for name in trials}
    rankings = {"loss": loss, **{way: scores_of(used, held_out, settings) for way, used in ways.items()}}
    return {way: average_precision(scores, world.wrong) for way, scores in rankings.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--budget", default="default")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    columns = None
    for setting in args.settings:
        for seed in range(args.first, args.first + args.seeds):
            world, _ = price.trained(args.data, setting, seed, args.device)
            precisions = row(world, args.budget)
            if columns is None:
                columns = list(precisions)
                print(f"| setting, seed | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
            print(f"| {setting}, {seed} | {' | '.join(f'{precisions[way]:.3f}' for way in columns)} |", flush=True)


if __name__ == "__main__":
    main()
