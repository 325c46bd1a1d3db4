"""How good the causes are when failures are few.

    python benchmarks/few.py --data DIR --settings "C, MLP" "C, CNN" D --seeds 5
    python benchmarks/few.py --data DIR --settings "C, MLP" Clean --seeds 10 --numbers 10 20 40 --repairs
    python benchmarks/few.py --data DIR --settings D --numbers 100 --repairs --right 0 --forget

Prints AP over the number of failures searched with. With --repairs: how often a repair with few failures succeeds,
judged by failures and right examples it was not given. --right gives few right examples too. DIR as in quality.py. Runs
on torch and numpy alone.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from settings import SETTINGS, Data
from tables import spread

import amends
from amends import methods
from amends.algorithm.identify import identify
from amends.evaluation.rankings import average_precision

METHODS = {
    "loss": methods.loss,
    "grad_dot": methods.grad_dot,
    "linear, kronecker": lambda: methods.linear(methods.kronecker()),
    "ewc": methods.ewc,
    "functional": methods.functional,
    "default": methods.default,
}


def job(task: tuple[str, int, argparse.Namespace]) -> dict[tuple[str, int], float]:
    setting, seed, args = task
    torch.set_num_threads(1)
    world = SETTINGS[setting](Data(args.data), seed, "cpu")
    x, y = world.sets["query"]
    precision = {}
    for number in args.numbers:
        if number > len(y):
            continue
        for name, make in METHODS.items():
            shown, right = (x[:number], y[:number]), tuple(part[: args.right] for part in world.sets["guard"])
            influence = identify(world.net, world.train, shown, method=make(), remaining=right, batch_size=1024)
            precision[name, number] = average_precision(influence.scores, world.wrong)
    return precision


def repairs(task: tuple[str, int, argparse.Namespace]) -> dict[int, dict[str, float]]:
    """Half of the failures search and half judge. The holdout and remaining sets of the setting are never given to the
    repair."""
    setting, seed, args = task
    torch.set_num_threads(1)
    world = SETTINGS[setting](Data(args.data), seed, "cpu")
    x, y = world.sets["query"]
    outcomes = {}
    for number in (n for n in args.numbers if n <= len(y)):
        guard = tuple(part[: args.right] for part in world.sets["guard"]) if args.right else None
        learn = False if args.forget else None
        repair = amends.repair(world.net, world.train, (x[:number], y[:number]), guard, learn=learn, batch_size=1024)
        right = {k: 1 - amends.failing(repair.model, world.sets[k]).mean() for k in ("holdout", "remaining")}
        outcomes[number] = {"repaired": float(repair.verdict != "not repaired"), **right}
    return outcomes


def print_repairs(setting: str, results: list[dict[int, dict[str, float]]]) -> None:
    numbers = list(results[0])
    print(f"\n| {setting}, repairs | " + " | ".join(map(str, numbers)) + " |")
    print("|---" * (len(numbers) + 1) + "|")
    repaired = [sum(r[n]["repaired"] for r in results) for n in numbers]
    print("| repaired or partly | " + " | ".join(f"{c:.0f} of {len(results)}" for c in repaired) + " |")
    for name in ("holdout", "remaining"):
        shares = [[r[n][name] for r in results if r[n]["repaired"]] for n in numbers]
        cells = [spread(v) if v else "-" for v in shares]
        print(f"| then right of {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=["C, MLP", "C, CNN", "D"])
    parser.add_argument("--numbers", nargs="+", type=int, default=[1, 5, 10, 20, 50, 100])
    parser.add_argument("--right", type=int, default=10**9, help="right examples that are given at most")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--forget", action="store_true", help="only forget, and learn from no failure")
    parser.add_argument("--repairs", action="store_true", help="repair with so many failures, instead of ranking")
    args = parser.parse_args()
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for setting in args.settings:
            if args.repairs:
                tasks = [(setting, seed, args) for seed in range(args.seeds)]
                print_repairs(setting, list(pool.map(repairs, tasks)))
                continue
            results = list(pool.map(job, [(setting, seed, args) for seed in range(args.seeds)]))
            numbers = [n for n in args.numbers if ("default", n) in results[0]]
            print(f"\n| {setting}, AP | " + " | ".join(map(str, numbers)) + " |")
            print("|---" * (len(numbers) + 1) + "|")
            for name in METHODS:
                cells = [spread([r[name, number] for r in results]) for number in numbers]
                print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
