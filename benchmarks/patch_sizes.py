"""Every size a patch may have and what it costs, by the guards and by the held-out sets. The limits of patches were
chosen by this.

    python benchmarks/patch_sizes.py --data DIR

DIR as in quality.py. The settings differ from those of patch.py, where patches are measured. For each size of the
moves: what the guards say, fitted to one half and counted on the other, both ways; and the overall accuracy on the
held-out sets, compared with the repaired weights. No patch is chosen by the latter.
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(WORLDS), default=OTHERS, metavar="SETTING")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    for setting in args.settings:
        world, result, _ = repaired(setting, 0, Data(args.data), args.device, "default")
        weights = sum(v.numel() * v.element_size() for v in world.net.state_dict().values())
        repair = Repaired(result.given, result.split, result.after, result.metrics, result.floor, result.kept)
        forms, was = repair.shorter, repair.judge(result.after)["overall"]["after"]
        for level in forms.levels():
            cost, moves = forms.cost(level, Progress()), forms.fitted(level, Progress())
            size = sum(len(part) for move in moves.values() if move is not None for part in move.parts.values())
            gain = repair.judge(forms.after(moves))["overall"]["after"] - was
            cells = (f"{cost.loss:+.4f}", f"{cost.error:.4f}", f"{cost.changed:.4f}", "yes" if cost.small else "no")
            print(f"| {setting} | {size:,} | {size / weights:.2%} | {' | '.join(cells)} | {gain:+.4f} |", flush=True)
            if size > MOST * weights:
                break


if __name__ == "__main__":
    main()
