"""The cost of identifying and repairing, relative to training the model once.

    OMP_NUM_THREADS=1 python benchmarks/price.py --data DIR --settings "C, MLP" D Fashion --budgets quick default

DIR as in quality.py. All three run in one process, one after the other, and are measured in CPU seconds (on a GPU, in
wall-clock seconds). With `--repeats` they run several times in turn and the lowest time of each counts, since other
work on the machine can only add to it. A pass is one forward and backward pass over D in batches of 64, without an
optimiser. Ratios can be compared between machines; seconds cannot. Runs on torch and numpy alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import settings
import torch
import worlds
from settings import SETTINGS, Data
from torch.nn import functional as nnf

import amends
from amends.evaluation.rankings import average_precision

BATCH = 1024  # examples computed at once


def timed(work: Callable[[], Any], device: str) -> tuple[Any, float]:
    clock = time.process_time if device == "cpu" else time.perf_counter
    if device != "cpu":
        torch.cuda.synchronize()
    start = clock()
    result = work()
    if device != "cpu":
        torch.cuda.synchronize()
    return result, clock() - start


def trained(folder: str, setting: str, seed: int, device: str) -> tuple[worlds.World, float]:
    """A world with one model, and the seconds its training took."""
    seconds: list[float] = []
    fit, build = worlds.Recipe.fitted, settings.world

    def timed_fit(recipe: worlds.Recipe, *given: Any) -> Any:
        made, cost = timed(lambda: fit(recipe, *given), device)
        seconds.append(cost)
        return made

    def one_model(data: Any, recipe: worlds.Recipe, *rest: Any, **options: Any) -> worlds.World:
        return build(data, dataclasses.replace(recipe, models=1), *rest, **options)

    with patch.object(worlds.Recipe, "fitted", timed_fit), patch.object(settings, "world", one_model):
        return SETTINGS[setting](Data(folder), seed, device), seconds[0]


def one_pass(world: worlds.World) -> None:
    x, y = world.train
    for batch in torch.randperm(len(x), device=x.device).split(64):
        loss = nnf.cross_entropy(world.net(x[batch]), y[batch])
        torch.autograd.grad(loss, list(world.net.parameters()))


@dataclasses.dataclass
class Price:
    """The lowest seconds of each part so far, and the last results."""

    unit: float = float("inf")
    training: float = float("inf")
    identify: float = float("inf")
    repair: float = float("inf")
    precision: float = float("nan")
    overall: tuple[float, float] = (float("nan"), float("nan"))

    def measure(self, world: worlds.World, training: float, budget: str, device: str) -> None:
        failures, right = world.held_out
        unit = min(timed(lambda: one_pass(world), device)[1] for _ in range(3))
        sets, method = (world.sets["query"], world.sets["guard"]), amends.methods.default(budget)
        influence, identify = timed(
            lambda: amends.identify(world.net, world.known, *sets, method=method, batch_size=BATCH), device
        )
        result, repair = timed(
            lambda: amends.repair(world.net, world.known, failures, right, budget=budget, batch_size=BATCH), device
        )
        if world.wrong.any():
            self.precision = average_precision(influence.scores, world.wrong)
        self.overall = result.metrics["overall"]["before"], result.metrics["overall"]["after"]
        self.unit, self.training = min(self.unit, unit), min(self.training, training)
        self.identify, self.repair = min(self.identify, identify), min(self.repair, repair)

    def __str__(self) -> str:
        costs = (self.training, self.identify, self.repair)
        cells = [*(f"{cost:.1f} s, {cost / self.unit:.0f}" for cost in costs),
                 *(f"{cost / self.training:.2f}" for cost in costs[1:]),
                 f"{self.precision:.3f}", "{:.3f} → {:.3f}".format(*self.overall)]  # fmt: skip
        return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), required=True)
    parser.add_argument("--budgets", nargs="+", default=["default"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=1, help="how many times, in turn; the least counts")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    _ = amends.identify, amends.repair, amends.methods.default  # imported here, so that importing is not measured
    print("| setting | budget | training, passes | identify, passes | repair, passes | identify / training "
          "| repair / training | AP | overall |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for setting in args.settings:
        prices = {budget: Price() for budget in args.budgets}
        for _ in range(args.repeats):
            world, training = trained(args.data, setting, args.seed, args.device)
            for budget, price in prices.items():
                price.measure(world, training, budget, args.device)
        for budget, price in prices.items():
            print(f"| {setting} | {budget} | {price} |", flush=True)


if __name__ == "__main__":
    main()
