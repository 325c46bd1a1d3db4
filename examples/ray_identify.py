"""A search in parts on a Ray cluster: every part is a task, and `amends merge` makes one run folder of them.

    python examples/ray_identify.py amends.toml --parts 8 --method functional --out runs/photos

Every machine needs amends, and sees the config, what it names and the run folder under the same paths. A task is the
command `amends identify --shard i/n` and nothing else, so any other launcher does as well: a job array of SLURM, Spark,
or eight terminals. A part that is there already is not computed again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import ray


@ray.remote
def search(config: str, part: str, out: str, options: list[str]) -> str:
    """One part; what it said where it failed."""
    command = [sys.executable, "-m", "amends", "identify", config, "--shard", part, "-o", out, "-q", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"part {part}: {done.stderr.strip()}"


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("config")
    ask.add_argument("--parts", type=int, default=4)
    ask.add_argument("--method", default="functional")
    ask.add_argument("--out", type=Path, required=True, help="the run folder; parts are written beside it")
    ask.add_argument("--cpus", type=float, default=1, help="of a task")
    ask.add_argument("--gpus", type=float, default=0, help="of a task")
    args = ask.parse_args()
    ray.init(ignore_reinit_error=True)
    config = str(Path(args.config).resolve())
    folders = [f"{args.out.resolve()}-part-{i}" for i in range(args.parts)]
    options = ["--method", args.method, *(["--device", "cuda"] if args.gpus else [])]
    tasks = [
        search.options(num_cpus=args.cpus, num_gpus=args.gpus).remote(config, f"{i}/{args.parts}", folder, options)
        for i, folder in enumerate(folders)
        if not Path(folder).exists()
    ]
    failed = [said for said in ray.get(tasks) if said]
    if failed:
        print("\n".join(failed), file=sys.stderr)
        return 1
    return subprocess.run([sys.executable, "-m", "amends", "merge", *folders, "-o", str(args.out)]).returncode


if __name__ == "__main__":
    sys.exit(main())
