"""Every size a patch may have, what it costs by what guards and by what judges: what its limits were chosen by.

    python benchmarks/patch_sizes.py --data DIR

DIR as in quality.py. The settings are others than those whose patches are weighed (patch.py). For each size of the
moves: what guards says of it, fitted to one half and counted on the other, both ways; and the overall accuracy on what
judges beside that of the repaired weights, which no patch is chosen by.
"""

from __future__ import annotations

import argparse
import warnings

import torch
from patch import WORLDS, Data, repaired

from amends.patches.make import Repaired
from amends.progress import Progress

OTHERS = ["Census", "C, CNN", "Fashion, two", "Fashion, weak"]
HEAD = (
    "setting",
    "bytes",
    "of the weights",
    "guards lose",
    "± ",
    "answers change",
    "small enough",
    "what judges gains",
)
MOST = 0.1  # of the weights


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--data", required=True, help="folder with the data sets")
    ask.add_argument("--settings", nargs="+", choices=list(WORLDS), default=OTHERS, metavar="SETTING")
    ask.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = ask.parse_args()
    warnings.filterwarnings("ignore")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    for setting in args.settings:
        here, result, _ = repaired(setting, 0, Data(args.data), args.device, "default")
        weights = sum(v.numel() * v.element_size() for v in here.net.state_dict().values())
        of = Repaired(result.given, result.split, result.after, result.metrics, result.floor, result.kept)
        forms, was = of.shorter, of.judge(result.after)["overall"]["after"]
        for level in forms.levels():
            cost, moves = forms.cost(level, Progress()), forms.fitted(level, Progress())
            size = sum(len(part) for move in moves.values() if move is not None for part in move.parts.values())
            gain = of.judge(forms.after(moves))["overall"]["after"] - was
            told = (f"{cost.loss:+.4f}", f"{cost.error:.4f}", f"{cost.changed:.4f}", "yes" if cost.small else "no")
            print(f"| {setting} | {size:,} | {size / weights:.2%} | {' | '.join(told)} | {gain:+.4f} |", flush=True)
            if size > MOST * weights:
                break


if __name__ == "__main__":
    main()
