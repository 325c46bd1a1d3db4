"""How small the patch of a repair is, and what its small form costs.

    python benchmarks/patch.py --data DIR

DIR as in quality.py. Each row is the repair of one world by `amends.repair`. It has the size of the patch relative to
the weights, exact and small (the whole file, and the part for the weights; the rest are names, hashes and figures), the
verdict, and accuracies on the held-out sets with the repaired weights and with the small patch. Means over the seeds
follow. Every patch is applied and reverted, and the weights must come back to the bit. Progress, and what each layer
takes, goes to stderr. Needs torch, numpy and safetensors alone; uses a GPU if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import training
from settings import SETTINGS, Data
from sources import numbered
from torch import Tensor, nn
from training import for_epochs
from worlds import Flipped, Recipe, World, world

import amends
from amends.patches import guards
from amends.patches import small as small_form
from amends.patches.patch import Patch
from amends.patches.show import described
from amends.trace import Recorder


class Unrecorded(Recorder):
    """A Recorder that keeps no copy of the weights at every step: gigabytes that no patch reads."""

    def __call__(self, positions: object, rate: float) -> None:
        pass


class Transformer(nn.Module):
    """Two layers of attention over the words of a sentence, and the mean of their outputs. Word 0 is padding."""

    def __init__(self, words: int, classes: int, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        is_word = x != 0
        is_word[:, 0] = True
        encoded = self.layers(self.embed(x), src_key_padding_mask=~is_word)
        weight = is_word.unsqueeze(-1).to(encoded.dtype)
        return self.out((encoded * weight).sum(1) / weight.sum(1))


def reviews(data: Data, seed: int, device: str) -> World:
    """The setting Reviews, with a small transformer trained on 3,000 examples."""
    stored = data.reviews()
    order = np.random.default_rng(seed).permutation(len(stored["text"]))
    texts, labels = [stored["text"][i] for i in order], np.array(stored["label"])[order]
    x, xt, words = numbered(texts[:3000], texts[3000:6000])
    flipped = Flipped((x, labels[:3000]), (xt, labels[3000:6000]), {(1, 0): 0.25})
    recipe = Recipe(lambda: Transformer(words, 2), for_epochs(6), models=1)
    return world(flipped, recipe, seed, device, share=0.2)


WORLDS: dict[str, Callable[[Data, int, str], World]] = {**SETTINGS, "Reviews, transformer": reviews}
USUAL = ["C, MLP", "C, CNN", "Fashion", "D", "Banking", "Reviews", "Reviews, transformer"]
SETS = ("holdout", "remaining", "overall")
HEAD = (
    "setting", "seed", "weights", "exact", "small", "for the weights", "verdict: repaired, with the patch", *SETS,
    "seconds",
)  # fmt: skip
MEANS = ("setting", "seeds", "repaired", "small", "verdict as it was", *(f"{name}, gained" for name in SETS))


@dataclass(frozen=True)
class Made:
    """The patches of one repair, in bytes (`moves`: the part of the small one that holds the weights), its verdict and
    the one with the small patch, and accuracies with the repaired weights and with the patch."""

    exact: int
    small: int
    moves: int
    verdicts: tuple[str, str]
    accuracies: dict[str, tuple[float, float]]
    seconds: float


@dataclass(frozen=True)
class Row:
    setting: str
    seed: int
    weights: int  # bytes
    made: Made | None  # None: not repaired

    def cells(self) -> list[str]:
        first = [self.setting, str(self.seed), f"{self.weights / 1e3:,.0f} kB"]
        if self.made is None:
            return [*first, *("–",) * 3, "not repaired", *("–",) * 4]
        sizes = (self.made.exact, self.made.small, self.made.moves)
        both = [f"{a:.3f}, {b:.3f}" for a, b in self.made.accuracies.values()]
        shares = [f"{size / self.weights:.1%}" for size in sizes]
        return [*first, *shares, ", ".join(self.made.verdicts), *both, f"{self.made.seconds:.0f}"]


def mean(rows: list[Row]) -> list[str]:
    """The means of the seeds of one setting; for accuracies, what the patch gains over the repaired weights. With
    standard deviations."""
    made = [row.made for row in rows if row.made is not None]
    first = [rows[0].setting, ", ".join(str(row.seed) for row in rows), str(len(made))]
    if not made:
        return [*first, *("–",) * 5]
    size = [100 * row.made.small / row.weights for row in rows if row.made is not None]
    same = sum(one.verdicts[0] == one.verdicts[1] for one in made)
    gains = [[one.accuracies[name][1] - one.accuracies[name][0] for one in made] for name in SETS]
    return [*first, _spread(size, ".1f", "%"), f"{same} of {len(made)}", *(_spread(gain, "+.4f") for gain in gains)]


def _spread(values: list[float], form: str, unit: str = "") -> str:
    deviation = f" ± {np.std(values, ddof=1):{form.lstrip('+')}}" if len(values) > 1 else ""
    return f"{np.mean(values):{form}}{deviation}{unit}"


def repaired(
    setting: str, seed: int, data: Data, device: str, budget: str | float
) -> tuple[World, amends.Repair, float]:
    """A world, its repair, and the time it was begun."""
    training.Recorder = Unrecorded
    torch.manual_seed(seed)
    begun = time.perf_counter()
    case = WORLDS[setting](data, seed, device)
    failures, right = case.held_out
    tell(f"{setting}, seed {seed}: trained", begun)
    result = amends.repair(case.net, case.train, failures, right, seed=seed, budget=budget, progress=True)
    tell(f"{result.verdict}", begun)
    return case, result, begun


def row(setting: str, seed: int, data: Data, device: str, budget: str | float) -> Row:
    case, result, begun = repaired(setting, seed, data, device, budget)
    weights = sum(v.numel() * v.element_size() for v in case.net.state_dict().values())
    if result.verdict == "not repaired":
        return Row(setting, seed, weights, None)
    start = time.perf_counter()
    small = result.patch(progress=True)
    seconds = time.perf_counter() - start
    judged = small.bases[0].judged
    both = {name: (result.metrics[name]["after"], judged[name]["after"]) for name in SETS}
    verdicts = (result.verdict, judged["verdict"])
    tell(f"{small}, {small.size / weights:.1%}, in {seconds:.0f} s, {', '.join(verdicts)}: {both}", begun)
    exact = result.patch(exact=True)
    for patch in (exact, small):
        held_to_the_bit(case.net, patch)
    tell("both put on and taken off", begun)
    layers = described(small)["layers"]
    for layer in layers:
        tell(f"  {layer['name']} {layer['shape']}: {layer['kind']} {layer['rank'] or ''}, {layer['bytes']:,} bytes")
    moves = sum(layer["bytes"] for layer in layers)
    return Row(setting, seed, weights, Made(exact.size, small.size, moves, verdicts, both, seconds))


def counted(margin: np.ndarray, shift: np.ndarray) -> tuple[float, float]:
    """The share of answers that change, if each margin is shifted by its own shift alone, and its standard error."""
    share = float((margin + shift < 0).mean()) if len(margin) else 0.0
    return share, (share / max(1, len(margin))) ** 0.5


def leave_out(step: str | None) -> None:
    """Switch off one step of making a patch small, to see what it saves."""
    if step == "pairs":
        guards.crossings = counted
    if step == "fitting":
        small_form.refitted = lambda start, moves, teacher, progress: dict(moves)


def tell(what: str, begun: float | None = None) -> None:
    print(what if begun is None else f"{time.perf_counter() - begun:.0f} s: {what}", file=sys.stderr, flush=True)


def held_to_the_bit(net: nn.Module, patch: Patch) -> None:
    back = patch.revert(amends.apply(net, patch)).state_dict()
    assert all(torch.equal(value, back[name]) for name, value in net.state_dict().items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", choices=list(WORLDS), default=USUAL, metavar="SETTING")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--budget", default="default", help="of the repairs, a word or seconds")
    parser.add_argument("--without", choices=("fitting", "pairs"), help="a step of making patches small to leave out")
    args = parser.parse_args()
    leave_out(args.without)
    budget = float(args.budget) if args.budget.replace(".", "", 1).isdigit() else args.budget
    warnings.filterwarnings("ignore")
    print(line(HEAD) + f"\n|{'---|' * len(HEAD)}", flush=True)
    means = []
    for setting in args.settings:
        rows = []
        for seed in range(args.first, args.first + args.seeds):
            rows.append(row(setting, seed, Data(args.data), args.device, budget))
            print(line(rows[-1].cells()), flush=True)
        means.append(mean(rows))
    print("\n".join(["", line(MEANS), f"|{'---|' * len(MEANS)}", *map(line, means)]), flush=True)


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
