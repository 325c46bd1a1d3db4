"""How good the causes are when failures are few: AP over the number of failures searched with.

    python benchmarks/few.py --data DIR --settings "C, MLP" "C, CNN" D --seeds 5

DIR as in quality.py. Runs on torch and numpy alone.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch
from settings import SETTINGS, Data

from amends import methods
from amends.evaluation import average_precision
from amends.influence import identify

METHODS = {
    "loss": methods.loss,
    "grad_dot": methods.grad_dot,
    "linear, kronecker": lambda: methods.linear(methods.kronecker()),
    "ewc": methods.ewc,
    "functional": methods.functional,
    "default": methods.default,
}


def job(todo: tuple[str, int, argparse.Namespace]) -> dict[tuple[str, int], float]:
    setting, seed, args = todo
    torch.set_num_threads(1)
    world = SETTINGS[setting](Data(args.data), seed, "cpu")
    x, y = world.sets["query"]
    found = {}
    for number in args.numbers:
        if number > len(y):
            continue
        for name, make in METHODS.items():
            shown = x[:number], y[:number]
            made = identify(
                world.net, world.train, shown, method=make(), remaining=world.sets["guard"], batch_size=1024
            )
            found[name, number] = average_precision(made.scores, world.wrong)
    return found


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--data", required=True, help="folder with the data sets")
    ask.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=["C, MLP", "C, CNN", "D"])
    ask.add_argument("--numbers", nargs="+", type=int, default=[1, 5, 10, 20, 50, 100])
    ask.add_argument("--seeds", type=int, default=5)
    ask.add_argument("--jobs", type=int, default=2)
    args = ask.parse_args()
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for setting in args.settings:
            results = list(pool.map(job, [(setting, seed, args) for seed in range(args.seeds)]))
            numbers = [n for n in args.numbers if ("default", n) in results[0]]
            print(f"\n| {setting}, AP | " + " | ".join(map(str, numbers)) + " |")
            print("|---" * (len(numbers) + 1) + "|")
            for name in METHODS:
                cells = []
                for number in numbers:
                    values = [r[name, number] for r in results]
                    cells.append(f"{np.mean(values):.3f} ± {np.std(values):.3f}")
                print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
