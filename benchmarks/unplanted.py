"""Which labels of Banking the default finds that nobody planted: real questions to a bank, some of them labelled wrong.

    python benchmarks/unplanted.py --data DIR --seed 0 --show 30

DIR as in quality.py. Average precision counts each of them as a mistake of the ranking. Whether it is one, the reader
has to say: the question, the topic that is written, and the one the model would give instead.
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
    """Positions in D, most harmful first, as a user's search finds them."""
    found = amends.identify(world.net, world.train, world.sets["query"], world.sets["guard"], seed=seed)
    return np.argsort(-found.scores, kind="stable")


def instead(world: World) -> np.ndarray:
    """The class the model would give each example but for the one that is written."""
    x, y = world.train
    with torch.no_grad():
        return outputs(world.net, x).scatter(1, y[:, None], -torch.inf).argmax(1).numpy()


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--data", required=True, help="folder with the data sets")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--show", type=int, default=30, help="how many to print")
    args = ask.parse_args()
    warnings.filterwarnings("ignore")
    stored, (world, _) = Data(args.data).banking(), price.trained(args.data, "Banking", args.seed, "cpu")
    order, other, topics = ranked(world, args.seed), instead(world), stored["classes"]
    for first in (100, 500, 1000):
        print(f"planted among the first {first}: {world.wrong[order[:first]].sum()} of {world.wrong.sum()}")
    print("| rank | question | topic written | the model's |\n|---|---|---|---|")
    places = np.flatnonzero(~world.wrong[order])[: args.show].tolist()
    for rank, at in zip(places, order[places].tolist(), strict=True):
        question, written = stored["train_text"][at].strip(), topics[stored["train_label"][at]]
        print(f"| {rank + 1} | {question} | {written} | {topics[other[at]]} |")


if __name__ == "__main__":
    main()
