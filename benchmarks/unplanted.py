"""The labels of Banking that the default finds although nobody planted them: real questions to a bank, some labelled
wrong.

    python benchmarks/unplanted.py --data DIR --seed 0 --show 30

DIR as in quality.py. Average precision counts each of them as an error of the ranking. The reader has to decide whether
it is: printed are the question, its label, and the topic the model would choose instead.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import price
import torch
from sources import Data
from worlds import World, outputs

import amends


def ranked(world: World, seed: int) -> np.ndarray:
    """Positions in D, most harmful first, as in a user's search."""
    influence = amends.identify(world.net, world.train, world.sets["query"], world.sets["guard"], seed=seed)
    return np.argsort(-influence.scores, kind="stable")


def instead(world: World) -> np.ndarray:
    """For each example, the most likely class other than its label."""
    x, y = world.train
    with torch.no_grad():
        return outputs(world.net, x).scatter(1, y[:, None], -torch.inf).argmax(1).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=30, help="how many to print")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    stored, (world, _) = Data(args.data).banking(), price.trained(args.data, "Banking", args.seed, "cpu")
    order, other, topics = ranked(world, args.seed), instead(world), stored["classes"]
    for first in (100, 500, 1000):
        print(f"planted among the first {first}: {world.wrong[order[:first]].sum()} of {world.wrong.sum()}")
    print("| rank | question | topic written | the model's |\n|---|---|---|---|")
    places = np.flatnonzero(~world.wrong[order])[: args.show].tolist()
    for rank, index in zip(places, order[places].tolist(), strict=True):
        question, written = stored["train_text"][index].strip(), topics[stored["train_label"][index]]
        print(f"| {rank + 1} | {question} | {written} | {topics[other[index]]} |")


if __name__ == "__main__":
    main()
