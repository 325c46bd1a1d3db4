"""Trains the victims of `poisoning.py` in parallel: large networks, which take minutes each.

    python -m experiments.victims --on cifar10 --data DIR --seeds 0

They are stored in files, where `poisoning.py` finds them. Without them it trains them itself, one after the other.
"""

from __future__ import annotations

import argparse
import multiprocessing

from experiments.protocol import Start, clean_inputs, seeds_of_victims, trained
from experiments.running import Plan
from experiments.sets import SETS


def learn(start: Start, seed: int) -> None:
    trained(clean_inputs(start), seed)


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.victims", description="The victims of poisoning.")
    parser.add_argument("--data", help="folder with cifar10_train_part1..5.npz and cifar10_test.npz")
    parser.add_argument("--on", choices=[name for name, about in SETS.items() if about.large], default="cifar10")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args(args)
    plan = Plan("poisoning", options.on, options.data)
    for start in map(plan.start, options.seeds):
        seeds = seeds_of_victims(start)
        with multiprocessing.get_context("spawn").Pool(len(seeds)) as pool:
            pool.starmap(learn, [(start, seed) for seed in seeds])


if __name__ == "__main__":
    main()
