"""How well the time left that progress shows agrees with what was left in the end.

    OMP_NUM_THREADS=1 python benchmarks/time_left.py --data DIR --settings "C, MLP" D "Fashion, weak" --seeds 3

DIR as in quality.py. Each repair runs with progress, off a terminal. Whenever a part or a fit begins, the seconds shown
are noted. They are a range where a part may not be needed. Prints, for each repair: how long it took, what was shown
after a tenth of that time and what was truly left, and how far the truth was from the range at worst between the first
tenth and the last (2.0: twice or half as long as the nearest end of the range).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import warnings
from dataclasses import dataclass, field
from unittest.mock import patch

import price
import torch
from settings import SETTINGS

import amends
from amends.progress import Progress

FIRST, LAST = 0.1, 0.9  # of the time


@dataclass
class Watched:
    """What progress showed, and when."""

    shown: list[tuple[float, float, float]] = field(default_factory=list)  # when, and the seconds left: least and most

    def note(self, progress: Progress, _: str) -> None:
        course = progress._course
        least, most = (None, None) if course is None else (course.left(), course.left(perhaps=True))
        if least is not None and most is not None:
            self.shown.append((time.monotonic(), least, most))


def row(setting: str, seed: int, data: str) -> str:
    world, _ = price.trained(data, setting, seed, "cpu")
    watched, start = Watched(), time.monotonic()
    with (
        patch.object(Progress, "_show", lambda *given: watched.note(*given)),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        amends.repair(world.net, world.known, *world.held_out, seed=seed, progress=True)
    end = time.monotonic()
    inside = [(least, most, end - at) for at, least, most in watched.shown
              if FIRST <= (at - start) / (end - start) <= LAST]  # fmt: skip
    least, most, left = inside[0]
    worst = max(max(low / true, true / high, 1.0) for low, high, true in inside)
    return f"| {setting}, {seed} | {end - start:.1f} | {least:.1f} to {most:.1f} | {left:.1f} | {worst:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), required=True)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    print("| setting, seed | seconds | shown after a tenth | left | off by, at worst |\n|---|---|---|---|---|")
    for setting in args.settings:
        for seed in range(args.seeds):
            print(row(setting, seed, args.data), flush=True)


if __name__ == "__main__":
    main()
