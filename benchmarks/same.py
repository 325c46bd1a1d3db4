"""Do two checkouts compute the same, to the bit? Compares scores, causes, sizes tried, verdicts and repaired weights.

    python benchmarks/same.py --data DIR OLD NEW

OLD and NEW are folders of two checkouts; DIR is as in quality.py. Each repair runs once with the `amends` of each
checkout, with one thread. "in turn" means that the two largest groups of failures are repaired one after the other.
Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

SETTINGS = ("C, MLP", "C, MLP, in turn", "C, CNN", "D", "Census", "Clean")
IN_TURN = ", in turn"


def one_repair(data: str, setting: str, seed: int, out: str) -> None:
    """Run one repair. Called in a process of its own, which imports the `amends` of one checkout."""
    import torch
    from settings import SETTINGS as KNOWN
    from settings import Data

    import amends

    print(f"{setting}, seed {seed}: {Path(amends.__file__).parent}", file=sys.stderr, flush=True)
    torch.set_num_threads(1)
    world = KNOWN[setting.removesuffix(IN_TURN)](Data(data), seed, "cpu")
    failures, remaining = world.held_out
    groups = None
    if setting.endswith(IN_TURN):
        predictions = world.net(failures[0]).argmax(1)
        names = [
            f"{true}→{predicted}" for true, predicted in zip(failures[1].tolist(), predictions.tolist(), strict=True)
        ]
        groups = amends.Groups(only=[name for name, _ in Counter(names).most_common(2)])
    result = amends.repair(world.net, world.train, failures, remaining, seed=seed, group_by=groups)
    shares = [[row[k] for k in ("query", "guard", "holdout", "remaining")] for row in result.metrics["curve"]]
    np.savez(
        out,
        scores=result.influence.scores,
        causes=result.causes["index"].to_numpy(),
        sizes=np.array([row["removed"] for row in result.metrics["curve"]]),
        shares=np.array(shares, dtype=np.float64),
        verdict=np.array(result.verdict),
        weights=torch.cat([p.detach().flatten() for p in result.model.parameters()]).numpy(),
    )


def started(checkout: Path, data: str, setting: str, seed: int, out: Path) -> Path:
    """Run one repair with the `amends` of a checkout. Returns the file of its results."""
    code = f"from same import one_repair; one_repair({data!r}, {setting!r}, {seed}, {str(out.resolve())!r})"
    paths = os.pathsep.join([str(checkout), str(Path(__file__).parent)])
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-P", "-W", "ignore", "-c", code], env=env, check=True)  # -P: not from this folder
    return out


def differences(old: Path, new: Path) -> list[str]:
    with np.load(old) as a, np.load(new) as b:
        return [name for name in a.files if a[name].dtype != b[name].dtype or a[name].tobytes() != b[name].tobytes()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW")
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--jobs", type=int, default=2, help="repairs at once")
    parser.add_argument("--keep", type=Path, help="folder of results; those of OLD that are there are not made again")
    args = parser.parse_args()
    keep = args.keep or Path(tempfile.mkdtemp(prefix="same-"))
    keep.mkdir(parents=True, exist_ok=True)

    def compared(setting: str, seed: int) -> list[str]:
        old, new = (keep / f"{side} {setting} {seed}.npz" for side in ("old", "new"))
        if not (args.keep and old.exists()):
            started(args.old.resolve(), args.data, setting, seed, old)
        return differences(old, started(args.new.resolve(), args.data, setting, seed, new))

    tasks = [(setting, seed) for setting in args.settings for seed in args.seeds]
    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda one: compared(*one), tasks))
    for (setting, seed), differing in zip(tasks, results, strict=True):
        print(f"{setting}, seed {seed}: {'differs in ' + ', '.join(differing) if differing else 'the same'}")
    return int(any(results))


if __name__ == "__main__":
    sys.exit(main())
