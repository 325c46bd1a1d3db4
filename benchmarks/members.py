"""What each member of the default finds, and what the default finds without it.

    OMP_NUM_THREADS=1 python benchmarks/members.py --data DIR --settings "C, MLP" D --seeds 2

DIR as in quality.py. One AP for each: the loss as it is, every member alone, the default with all of them, the default
without each. Members are tried once and combined in every way. Runs on torch and numpy alone.
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


def scores_of(trials: Mapping[str, Trial], given: Evidence, settings: Identifying) -> np.ndarray:
    edits = {name: t for name, t in trials.items() if t.ends}
    if not edits:
        (only,) = trials.values()
        return only.scores[0].cpu().numpy()
    weights, own = (weights_of(some, settings.weights) for some in (trials, edits))
    return combined(trials, weights, own, given, settings).cpu().numpy()


def sets_of(world: World) -> dict[str, Factor]:
    """What is searched with."""
    return prepare(
        world.net, None, None, price.BATCH, train=world.train, failures=world.sets["query"],
        remaining=world.sets["guard"],
    )  # fmt: skip


def row(world: World, budget: str) -> dict[str, float]:
    given = sets_of(world)
    train, of_size = given["train"], large(given["train"].network.params)
    settings = Settings.of(budget, of_size).identifying
    settings = replace(settings, trials=replace(settings.trials, sample=len(train)))
    members = methods.default(budget).identifying(True, of_size, len(train))
    with torch.no_grad():
        known = evidence(train, given["failures"], given["remaining"], 0, settings)
        trials = try_all(members, known, Progress(), settings).trials
        loss = -train.per_example(train.network.params).cpu().numpy()
    ways = {"all": trials} | {f"{name} alone": {name: trials[name]} for name in trials}
    ways |= {f"without {name}": {n: t for n, t in trials.items() if n != name} for name in trials}
    found = {"loss": loss, **{way: scores_of(some, known, settings) for way, some in ways.items()}}
    return {way: average_precision(scores, world.wrong) for way, scores in found.items()}


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--data", required=True, help="folder with the data sets")
    ask.add_argument("--settings", nargs="+", choices=list(SETTINGS), required=True)
    ask.add_argument("--seeds", type=int, default=1)
    ask.add_argument("--first", type=int, default=0, help="the first seed")
    ask.add_argument("--budget", default="default")
    ask.add_argument("--device", default="cpu")
    args = ask.parse_args()
    warnings.filterwarnings("ignore")
    head = None
    for setting in args.settings:
        for seed in range(args.first, args.first + args.seeds):
            world, _ = price.trained(args.data, setting, seed, args.device)
            made = row(world, args.budget)
            if head is None:
                head = list(made)
                print(f"| setting, seed | {' | '.join(head)} |\n|{'---|' * (len(head) + 1)}")
            print(f"| {setting}, {seed} | {' | '.join(f'{made[way]:.3f}' for way in head)} |", flush=True)


if __name__ == "__main__":
    main()
