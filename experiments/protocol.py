"""How a model comes to fail, and how a repair of it is judged: the same for every experiment.

The training set is damaged in a known way, a network learns it, and what it gets wrong of the test set are the
failures. Half of them are the query, which methods search with; the other half, the holdout, only judges. Of what the
network gets right, one half may be read by methods that ask for it (`guard`), the other half judges (`remaining`).
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
REFERENCES = (NOTHING, REFERENCE, AGAIN)  # beside every method
KEPT = Path(".cache/experiments")  # weights and rankings of large networks, which several experiments share


@dataclass(frozen=True)
class Start:
    """Which data, where from and with which seed."""

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
    """A training set and which of it was changed, the images as they are shown, and the test set."""

    start: Start
    kind: str
    train: Arrays  # as the network takes it
    mask: np.ndarray
    images: np.ndarray
    true: np.ndarray
    test: Arrays


@dataclass(frozen=True, eq=False)
class Case:
    """A network that failed, what methods are given, and what judges them."""

    data: Damaged
    net: nn.Module
    trace: Trace | None
    train: Pair
    sets: dict[str, Pair]
    said: np.ndarray  # what the network says of the test set
    known: dict[Any, Any] = field(default_factory=dict)  # made already: rankings by the name of the method, fits

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
        return float((self.said == self.data.test[1]).mean())

    def accuracies(self, model: nn.Module) -> dict[str, float]:
        judged = {k: v for k, v in self.sets.items() if k != "guard" and len(v[1])}
        return {k: float((outputs(model, x).argmax(1) == y).double().mean()) for k, (x, y) in judged.items()}


def scaled(train: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """From 0 to 1, less the mean of the training images."""
    mean = np.float32(train.mean(dtype=np.float64) / 255)
    return [part / np.float32(255) - mean for part in (train, *others)]


def flipped_labels(start: Start) -> Damaged:
    """Annotation noise: labels changed by the confusion matrix of the data set."""
    (images, true), (tested, yt) = start.about.read(start.folder, start.seed)
    given, mask = flip_labels(true, start.about.confusion, start.seed)
    x, xt = scaled(images, tested)
    return Damaged(start, "flipped", (x, given), mask, images, true, (xt, yt))


def noisy_inputs(start: Start) -> Damaged:
    """Random input noise: salt and pepper or Gaussian, in 30 % of four classes."""
    (images, true), (tested, yt) = start.about.read(start.folder, start.seed)
    images, mask = start.about.noise(images, true, start.about.noisy, SHARE, start.seed)
    x, xt = scaled(images, tested)
    return Damaged(start, "noisy", (x, true), mask, images, true, (xt, yt))


def clean_inputs(start: Start) -> Damaged:
    """What victims learn."""
    (images, true), (tested, yt) = start.about.read(start.folder, start.seed)
    x, xt = scaled(images, tested)
    return Damaged(start, "clean", (x, true), np.zeros(len(x), bool), images, true, (xt, yt))


def seeds_of_victims(start: Start) -> tuple[int, ...]:
    return tuple(start.seed + 1000 * (i + 1) for i in range(start.about.victims))


def poisoned_inputs(start: Start) -> Damaged:
    """Adversarial poisoning: 30 % of four classes are attacked on victims, networks of the same kind that learned the
    clean images from other weights, and then called what the victim says."""
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
    """A network that learned it. Large ones are kept in a file, since they take minutes; their weights are rounded to
    16 bits first, so that the file is half as large and says all there is."""
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
    """The network that learned it, and its failures in two halves: of these classes alone, where they are named (the
    rest of the failures is then a set of its own, `other`)."""
    start = data.start
    net, trace = trained(data, start.seed)
    xt, yt = (torch.tensor(part, device=start.device) for part in data.test)
    said = outputs(net, xt).argmax(1).cpu().numpy()
    rng, truth = np.random.default_rng([start.seed, 5]), data.test[1]
    failures, right = rng.permutation(np.flatnonzero(said != truth)), rng.permutation(np.flatnonzero(said == truth))
    own = failures if classes is None else failures[np.isin(truth[failures], classes)]
    parts = {"query": own[: len(own) // 2], "holdout": own[len(own) // 2 :], "guard": right[::2],
             "remaining": right[1::2], "other": np.setdiff1d(failures, own)}  # fmt: skip
    sets = {k: (xt[torch.tensor(at, device=start.device)], yt[torch.tensor(at, device=start.device)])
            for k, at in parts.items()}  # fmt: skip
    x, y = (torch.tensor(part, device=start.device) for part in data.train)
    return Case(data, net, trace, (x, y), sets, said)


@lru_cache(maxsize=1)
def case_of(start: Start, damage: Callable[[Start], Damaged]) -> Case:
    """The network that learned what was damaged so. The last one is kept, since experiments share it."""
    return failed(damage(start), None if damage is flipped_labels else start.about.noisy)


@torch.no_grad()
def outputs(model: nn.Module, x: Tensor) -> Tensor:
    return torch.cat([model(part) for part in x.split(1024)])


def fine_tuned(case: Case, causes: np.ndarray, **options: Any) -> nn.Module:
    """The network after it went on training on D∖C, as the paper judges causes; made once, though several ask."""
    options = {"pull": 0.0, "learn": False, "kept": True, **case.about.tuning, **options}
    asked = "fine-tuned", np.sort(causes).tobytes(), tuple(sorted(options.items()))
    if asked not in case.known:
        failures = case.sets["query"] if options["learn"] else None
        with in_half(case):
            case.known[asked] = treat(
                case.net, case.train, causes, failures=failures, method=methods.fine_tune(**options),
                batch_size=batch_size(case),
            )  # fmt: skip
    return case.known[asked]


def after(case: Case, causes: np.ndarray, **options: Any) -> list[tuple[float, str, float]]:
    """Rows: what the network gets right once it went on training without them."""
    model = fine_tuned(case, causes, **options)
    return [(len(causes), measure, value) for measure, value in case.accuracies(model).items()]


def in_half(case: Case) -> Any:
    """bfloat16 where autocast allows, while a large network is tuned on a GPU."""
    on = case.about.large and case.train[0].is_cuda
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False) if on else nullcontext()


def batch_size(case: Case) -> int:
    return 512 if case.about.large else 1024
