"""How far an edit climbs in so many steps of L-BFGS, and how well it ranks by then.

    OMP_NUM_THREADS=1 python benchmarks/climb.py --data DIR --settings "C, MLP" "C, CNN" --seeds 5

DIR as in quality.py. Prints, for each number of steps, the mean and standard deviation over the seeds of the AP, of
the AP of the scores multiplied by the loss, and of the share of the way: the gain of the objective after so many steps,
divided by the gain after the largest of these numbers that the path reaches. Runs on torch and numpy alone.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import members
import price
import torch
from tables import spread

from amends import methods
from amends.editors import LBFGS
from amends.editors.climb import total
from amends.evaluation.rankings import average_precision

METHODS = {"ewc": methods.ewc, "kfac_ewc": methods.kfac_ewc, "functional": methods.functional}
STEPS = (5, 10, 20, 40, 60, 100, 200, 500)
AP, BY_LOSS, WAY = "AP", "AP × loss", "share of the way"


def path(task: tuple[str, str, int, str, tuple[int, ...]]) -> dict[tuple[str, int], float]:
    """The figures of one model and one method after each number of steps. A path that ends early stays where it is."""
    data, setting, seed, name, steps = task
    torch.set_num_threads(1)
    world, _ = price.trained(data, setting, seed, "cpu")
    sets = members.sets_of(world)
    train, failures = sets["train"], sets["failures"]
    method = METHODS[name](climb=LBFGS(steps=max(steps), tolerance=0))
    figures: dict[tuple[str, int], float] = {}
    with torch.no_grad():
        start = method.remember(train, sets["remaining"])
        terms = start.times(failures)
        before, first = train.per_example(start.mean), float(total(terms, start.mean)[0])
        for step, here in enumerate(method.editor(start, failures)):
            if step not in steps:
                continue
            raw = before - train.per_example(here.mean)
            figures[AP, step] = average_precision(raw.cpu().numpy(), world.wrong)
            figures[BY_LOSS, step] = average_precision((raw * -before).cpu().numpy(), world.wrong)
            figures[WAY, step] = float(total(terms, here.mean)[0]) - first
    reached = max(step for _, step in figures)
    for measure in (AP, BY_LOSS, WAY):
        figures |= {(measure, step): figures[measure, reached] for step in steps if step > reached}
    return {(measure, k): v / figures[WAY, reached] if measure == WAY else v for (measure, k), v in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", default=["C, MLP", "C, CNN"])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--steps", nargs="+", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    steps = tuple(sorted(args.steps))
    print(f"| setting, method | | {' | '.join(map(str, steps))} |\n{'|---' * (len(steps) + 2)}|")
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for setting in args.settings:
            tasks = [(args.data, setting, seed, name, steps) for name in args.methods for seed in range(args.seeds)]
            of_method = defaultdict(list)
            for task, figures in zip(tasks, pool.map(path, tasks), strict=True):
                of_method[task[3]].append(figures)
                if len(of_method[task[3]]) == args.seeds:
                    for measure in (AP, BY_LOSS, WAY):
                        cells = [spread([f[measure, k] for f in of_method[task[3]]]) for k in steps]
                        print(f"| {setting}, {task[3]} | {measure} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
