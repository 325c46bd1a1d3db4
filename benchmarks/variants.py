"""The default with some of its settings changed, compared with the default unchanged.

    python benchmarks/variants.py --data DIR --settings D Census --first 5 --seeds 3 --jobs 2 \
        --change "identifying.teaching.rate=2e-3; identifying.teaching.epochs=5.0" --change "curve.refits=1" --repairs

DIR as in quality.py. Each change is a variant: it gives names of amends.settings other values. By default the benchmark
measures how well the search finds wrong labels (AP) and what it costs, in passes over D. With --repairs it measures the
overall accuracy after the repair minus that of further training without the wrong labels, the AP of the search, the
cost of the repair, and how many were refused. With --one-kind the search sees only failures of the most frequent kind
(true, predicted), and its true causes are the wrong labels equal to that predicted class. Prints means and the worst
over all models, then the mean of each setting. Runs on torch and numpy alone, one thread each.
"""

from __future__ import annotations

import argparse
import ast
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import price
import torch
from settings import SETTINGS
from worlds import World, outputs

import amends
from amends import methods
from amends.evaluation.rankings import average_precision
from amends.settings import DEFAULT

AS_IT_IS = "as it is"


class Row(NamedTuple):
    setting: str
    variant: str
    figure: float  # AP, or overall accuracy minus that without the wrong labels
    passes: float
    precision: float  # AP of the search
    refused: bool


def changed(settings: Any, variant: str) -> Any:
    """The settings with these values: "name.of.one=1; name.of.another=2.0"."""
    for one in filter(None, variant.replace(AS_IT_IS, "").split(";")):
        path, value = (part.strip() for part in one.split("="))
        settings = _replaced(settings, path.split("."), ast.literal_eval(value))
    return settings


def _replaced(record: Any, names: list[str], value: Any) -> Any:
    first, *rest = names
    return replace(record, **{first: _replaced(getattr(record, first), rest, value) if rest else value})


def rows(task: tuple[str, str, int, list[str], str]) -> list[Row]:
    folder, setting, seed, variants, measure = task
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    world, _ = price.trained(folder, setting, seed, "cpu")
    _, unit = min(
        (price.timed(lambda: price.one_pass(world), "cpu") for _ in range(3)), key=lambda new_rows: new_rows[1]
    )
    new_rows = []
    for variant in variants:
        settings = changed(DEFAULT, variant)
        with patch.object(methods.Default, "settings_for", lambda self, large, settings=settings: settings):
            (figure, precision, refused), cost = price.timed(lambda: MEASURES[measure](world, seed), "cpu")
        new_rows.append(Row(setting, variant, figure, cost / unit, precision, refused))
    return new_rows


def found(world: World, seed: int) -> tuple[float, float, bool]:
    influence = amends.identify(world.net, world.train, world.sets["query"], world.sets["guard"], seed=seed)
    precision = average_precision(influence.scores, world.wrong)
    return precision, precision, False


def found_of_one_kind(world: World, seed: int) -> tuple[float, float, bool]:
    x, y = world.sets["query"]
    with torch.no_grad():
        predicted = outputs(world.net, x).argmax(1)
    ((true, called), _), *_ = Counter(zip(y.tolist(), predicted.tolist(), strict=True)).most_common(1)
    one = (y == true) & (predicted == called)
    influence = amends.identify(world.net, world.train, (x[one], y[one]), world.sets["guard"], seed=seed)
    precision = average_precision(influence.scores, world.wrong & (world.train[1].cpu().numpy() == called))
    return precision, precision, False


def repaired(world: World, seed: int) -> tuple[float, float, bool]:
    failures, right = world.held_out
    result = amends.repair(world.net, world.train, failures, right, seed=seed)
    clean = amends.treat(world.net, world.train, world.wrong, seed=seed)
    with torch.no_grad():
        ok = torch.cat([outputs(clean, x).argmax(1) == y for x, y in (failures, right)])
    gain = result.metrics["overall"]["after"] - float(ok.double().mean())
    return gain, average_precision(result.influence.scores, world.wrong), result.verdict == "not repaired"


MEASURES = {"AP": found, "AP of one kind": found_of_one_kind, "accuracy beyond that without the wrong labels": repaired}


def table(results: list[Row], variants: list[str], measure: str) -> str:
    settings = list(dict.fromkeys(row.setting for row in results))
    lines = [
        f"| {measure} | mean | worst | passes | AP | refused | {' | '.join(settings)} |",
        f"|{'---|' * (len(settings) + 6)}",
    ]
    for variant in variants:
        mine = [row for row in results if row.variant == variant]
        figures = [row.figure for row in mine]
        each = [np.mean([row.figure for row in mine if row.setting == name]) for name in settings]
        refused = f"{sum(row.refused for row in mine)} of {len(mine)}" if MEASURES[measure] is repaired else "-"
        lines.append(
            f"| {variant} | {np.mean(figures):.3f} | {min(figures):.3f} | {np.mean([row.passes for row in mine]):.0f} "
            f"| {np.mean([row.precision for row in mine]):.3f} | {refused} "
            f"| {' | '.join(f'{figure:.3f}' for figure in each)} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), required=True)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="models at once")
    parser.add_argument("--change", action="append", default=[], help='a variant: "name=value; name=value"')
    search, one, repair = MEASURES
    parser.add_argument(
        "--repairs", dest="measure", action="store_const", const=repair, help="whole repairs, not the search"
    )
    parser.add_argument(
        "--one-kind", dest="measure", action="store_const", const=one, help="failures of one kind alone"
    )
    parser.set_defaults(measure=search)
    args = parser.parse_args()
    variants = [AS_IT_IS, *args.change]
    tasks = [(args.data, setting, seed, variants, args.measure)
            for setting in args.settings for seed in range(args.first, args.first + args.seeds)]  # fmt: skip
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        results = [row for several in pool.map(rows, tasks) for row in several]
    print(table(results, variants, args.measure))


if __name__ == "__main__":
    main()
