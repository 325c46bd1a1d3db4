"""How a model comes to fail, and how a repair of it is judged. This is the same for every experiment.

The training set is damaged in a known way and a network is trained on it. The test examples it gets wrong are the
failures. Half of them are the query, which methods search with; the other half, the holdout, is only used to judge. Of
the test examples the network gets right, one half may be read by methods that ask for it (`guard`); the other half
judges (`remaining`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from amends import methods
from amends.algorithm.treat import treat
from amends.data import flip_labels, poison
from amends.trace import Trace
from benchmarks.sources import Arrays
from experiments.sets import SETS, SHARE, DataSet

Pair = tuple[Tensor, Tensor]
NOTHING, REFERENCE, AGAIN = "nothing removed", "every damaged one removed", "trained again without them"
REFERENCES = (NOTHING, REFERENCE, AGAIN)  # shown next to every method
KEPT = Path(".cache/experiments")  # weights and rankings of large networks, which several experiments share


@dataclass(frozen=True)
class Start:
    """Which data set, where it is stored, and the seed."""

    on: str
    folder: str | None
    seed: int
    device: str
    patience: int = 120  # seconds a method may take with a large network before it is given up

    @property
    def about(self) -> DataSet:
        return SETS[self.on]


@dataclass(frozen=True)
class Damaged:
    """A training set, which of its examples were changed (`mask`), its images as pixels, its true labels, and the test
    set."""

    start: Start
    kind: str
    train: Arrays  # scaled, as the network reads it, with the labels it is trained on
    mask: np.ndarray
    images: np.ndarray
    true: np.ndarray
    test: Arrays


@dataclass(frozen=True, eq=False)
class Case:
    """A network that failed, the sets that methods may read, and the sets that judge them."""

    data: Damaged
    net: nn.Module
    trace: Trace | None
    train: Pair
    sets: dict[str, Pair]
    predicted: np.ndarray  # the network's predictions on the test set
    cache: dict[Any, Any] = field(default_factory=dict)  # results several experiments share: rankings, fits, curvature

    @property
    def about(self) -> DataSet:
        return self.data.start.about

    @property
    def patience(self) -> int | None:
        return self.data.start.patience if self.about.large else None

    @property
    def wrong(self) -> np.ndarray:
        return self.data.mask

    @property
    def accuracy(self) -> float:
        return float((self.predicted == self.data.test[1]).mean())

    def accuracies(self, model: nn.Module) -> dict[str, float]:
        judged = {k: v for k, v in self.sets.items() if k != "guard" and len(v[1])}
        return {k: float((outputs(model, x).argmax(1) == y).double().mean()) for k, (x, y) in judged.items()}


def scaled(train: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Pixels from 0 to 1, minus the mean of the training images."""
    mean = np.float32(train.mean(dtype=np.float64) / 255)
    return [part / np.float32(255) - mean for part in (train, *others)]


def flipped_labels(start: Start) -> Damaged:
    """Annotation noise: labels changed according to the confusion matrix of the data set."""
    (images, true), (tested, yt) = start.about.read(start.folder, start.seed)
    given, mask = flip_labels(true, start.about.confusion, start.seed)
    x, xt = scaled(images, tested)
    return Damaged(start, "flipped", (x, given), mask, images, true, (xt, yt))


def noisy_inputs(start: Start) -> Damaged:
    """Random input noise: salt and pepper or Gaussian, in 30 % of the images of four classes."""
    (images, true), (tested, yt) = start.about.read(start.folder, start.seed)
    images, mask = start.about.noise(images, true, start.about.noisy, SHARE, start.seed)
    x, xt = scaled(images, tested)
    return Damaged(start, "noisy", (x, true), mask, images, true, (xt, yt))


def clean_inputs(start: Start) -> Damaged:
    """The undamaged data, which victims are trained on."""
    (images, true), (tested, yt) = start.about.read(start.folder, start.seed)
    x, xt = scaled(images, tested)
    return Damaged(start, "clean", (x, true), np.zeros(len(x), bool), images, true, (xt, yt))


def seeds_of_victims(start: Start) -> tuple[int, ...]:
    return tuple(start.seed + 1000 * (i + 1) for i in range(start.about.victims))


def poisoned_inputs(start: Start) -> Damaged:
    """Adversarial poisoning: 30 % of the images of four classes are attacked, then labelled with what the victim
    predicts. Victims are networks of the same kind, trained on the clean images from other initial weights."""
    clean = clean_inputs(start)
    x, true = clean.train
    victims = [trained(clean, seed)[0] for seed in seeds_of_victims(start)]
    black, white = float(x.min()), float(x.max())
    attacked, given, mask = poison(
        x, true, start.about.noisy, SHARE, start.seed, victims, start.about.epsilon, (black, white)
    )  # fmt: skip
    shown = np.rint((attacked - black) * 255).astype(np.uint8)
    return Damaged(start, "poisoned", (attacked, given), mask, shown, true, clean.test)


def trained(data: Damaged, seed: int) -> tuple[nn.Module, Trace | None]:
    """A network trained on the data. Large ones take minutes, so they are kept in a file. Their weights are rounded to
    16 bits first: the file is half as large, and a network read from it is the same as the one just trained."""
    about, device = data.start.about, data.start.device
    x, y = (torch.tensor(part, device=device) for part in data.train)
    torch.manual_seed(seed)
    net = about.make().to(device)
    kept = KEPT / f"{data.start.on}_{data.kind}_{data.start.seed}_{seed}.pt"
    if not about.large:
        trace = about.fit(net, x, y)
        return net.eval(), trace
    if not kept.exists():
        about.fit(net, x, y)
        rounded = {k: v.half() if v.is_floating_point() else v for k, v in net.state_dict().items()}
        kept.parent.mkdir(parents=True, exist_ok=True)
        torch.save(rounded, kept.with_suffix(".part"))
        kept.with_suffix(".part").replace(kept)
    net.load_state_dict(torch.load(kept, map_location=device, weights_only=True))
    return net.eval(), None


def failed(data: Damaged, classes: tuple[int, ...] | None = None) -> Case:
    """Train the network and split its failures into two halves. If classes are named, only their failures are split;
    the other failures form a set of their own, `other`."""
    start = data.start
    net, trace = trained(data, start.seed)
    xt, yt = (torch.tensor(part, device=start.device) for part in data.test)
    predicted = outputs(net, xt).argmax(1).cpu().numpy()
    rng, truth = np.random.default_rng([start.seed, 5]), data.test[1]
    failures, right = (
        rng.permutation(np.flatnonzero(predicted != truth)),
        rng.permutation(np.flatnonzero(predicted == truth)),
    )
    own = failures if classes is None else failures[np.isin(truth[failures], classes)]
    parts = {"query": own[: len(own) // 2], "holdout": own[len(own) // 2 :], "guard": right[::2],
             "remaining": right[1::2], "other": np.setdiff1d(failures, own)}  # fmt: skip
    sets = {k: (xt[torch.tensor(at, device=start.device)], yt[torch.tensor(at, device=start.device)])
            for k, at in parts.items()}  # fmt: skip
    x, y = (torch.tensor(part, device=start.device) for part in data.train)
    return Case(data, net, trace, (x, y), sets, predicted)


@lru_cache(maxsize=1)
def case_of(start: Start, damage: Callable[[Start], Damaged]) -> Case:
    """The network trained on this kind of damage. The last one is cached, since experiments share it."""
    return failed(damage(start), None if damage is flipped_labels else start.about.noisy)


@torch.no_grad()
def outputs(model: nn.Module, x: Tensor) -> Tensor:
    return torch.cat([model(part) for part in x.split(1024)])


def fine_tuned(case: Case, causes: np.ndarray, **options: Any) -> nn.Module:
    """The network after further training on D∖C, which is how the paper judges causes. Cached, since several
    experiments need it."""
    options = {"pull": 0.0, "learn": False, "kept": True, **case.about.tuning, **options}
    key = "fine-tuned", np.sort(causes).tobytes(), tuple(sorted(options.items()))
    if key not in case.cache:
        failures = case.sets["query"] if options["learn"] else None
        with in_half(case):
            case.cache[key] = treat(
                case.net, case.train, causes, failures=failures, method=methods.fine_tune(**options),
                batch_size=batch_size(case),
            )  # fmt: skip
    return case.cache[key]


def after(case: Case, causes: np.ndarray, **options: Any) -> list[tuple[float, str, float]]:
    """Rows: accuracies after further training without the causes."""
    model = fine_tuned(case, causes, **options)
    return [(len(causes), measure, value) for measure, value in case.accuracies(model).items()]


def in_half(case: Case) -> Any:
    """A context: bfloat16 where autocast allows it, while a large network is tuned on a GPU."""
    on = case.about.large and case.train[0].is_cuda
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False) if on else nullcontext()


def batch_size(case: Case) -> int:
    return 512 if case.about.large else 1024
