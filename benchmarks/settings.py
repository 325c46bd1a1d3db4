"""The settings methods are compared in: real data with planted wrong labels, and a model that failed.

A: MNIST as in the paper. C: scikit-learn's 8x8 digits with models that memorised their noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from amends.data import flip_labels
from amends.trace import Recorder, Trace

Pair = tuple[Tensor, Tensor]
ONE_WAY = {(1, 7): 0.3, (9, 4): 0.3, (3, 5): 0.3, (6, 0): 0.3}
SYMMETRIC = {(1, 7): 0.3, (7, 1): 0.3, (6, 9): 0.3, (9, 6): 0.3}
CONFUSED = {(1, 7): 0.35, (7, 1): 0.35, (4, 9): 0.35, (9, 4): 0.35, (3, 8): 0.35, (8, 3): 0.35}


@dataclass(frozen=True, eq=False)
class World:
    """A model, its training set, which of its labels are wrong, and what it fails on.

    `query` and `guard` are given to the methods, `holdout` and `remaining` only judge. `others` are
    models trained on the same data from other weights; `share` of D is taken as causes.
    """

    net: nn.Module
    train: Pair
    wrong: np.ndarray
    sets: dict[str, Pair]
    accuracy: float
    trace: Trace
    others: tuple[nn.Module, ...]
    share: float

    def accuracies(self, model: nn.Module) -> dict[str, float]:
        with torch.no_grad():
            shown = {k: self.sets[k] for k in ("query", "holdout", "remaining")}
            return {k: float((model(x).argmax(1) == y).double().mean()) for k, (x, y) in shown.items()}


def paper_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def small_mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )  # fmt: skip


def until_it_stops_improving(net: nn.Module, x: Tensor, y: Tensor) -> Trace:
    """Adam 1e-3, batches of 64, at most 100 epochs, stopped after 5 without progress on a tenth."""
    order = torch.randperm(len(x), device=x.device)
    held, used = order[: len(x) // 10], order[len(x) // 10 :]
    optimiser, recorder = torch.optim.Adam(net.parameters(), lr=1e-3), Recorder(net)
    best, waited, kept, steps = float("inf"), 0, {}, 0
    for _ in range(100):
        for batch in used[torch.randperm(len(used), device=x.device)].split(64):
            _step(net, optimiser, recorder, x, y, batch)
        with torch.no_grad():
            loss = float(nnf.cross_entropy(net(x[held]), y[held]))
        if loss < best:
            best, waited, steps = loss, 0, len(recorder.trace().steps)
            kept = {k: v.clone() for k, v in net.state_dict().items()}
        else:
            waited += 1
        if waited == 5:
            break
    net.load_state_dict(kept)
    return Trace(recorder.trace().steps[:steps], recorder.trace().end)


def until_it_memorised(net: nn.Module, x: Tensor, y: Tensor) -> Trace:
    """Adam 1e-3, batches of 32, until 95 % of the labels are fitted, wrong ones too, or 300 epochs."""
    optimiser, recorder = torch.optim.Adam(net.parameters(), lr=1e-3), Recorder(net)
    for _ in range(300):
        for batch in torch.randperm(len(x), device=x.device).split(32):
            _step(net, optimiser, recorder, x, y, batch)
        with torch.no_grad():
            if float((net(x).argmax(1) == y).double().mean()) >= 0.95:
                break
    return recorder.trace()


def _step(net: nn.Module, optimiser: Any, recorder: Recorder, x: Tensor, y: Tensor, batch: Tensor) -> None:
    optimiser.zero_grad()
    nnf.cross_entropy(net(x[batch]), y[batch]).backward()
    recorder(batch.cpu().numpy(), optimiser.param_groups[0]["lr"])
    optimiser.step()


def world(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    flips: dict[tuple[int, int], float],
    make: Callable[[], nn.Module],
    fit: Callable[[nn.Module, Tensor, Tensor], Trace],
    seed: int,
    device: str,
    query: int | None = None,
    share: float = 0.15,
) -> World:
    """Train on flipped labels, find the failures in `test`, and split them; `query` of them, or half."""
    given, wrong = flip_labels(train[1], flips, seed)
    mean = train[0].mean()
    x, xt = (torch.tensor(images - mean, dtype=torch.float32, device=device)[:, None] for images in (train[0], test[0]))
    y, yt = torch.tensor(given, device=device), torch.tensor(test[1], device=device)
    nets, traces = [], []
    for i in range(3):
        torch.manual_seed(seed + 1000 * i)
        nets.append(make().to(device))
        traces.append(fit(nets[-1], x, y))
        nets[-1].eval()
    with torch.no_grad():
        ok = (nets[0](xt).argmax(1) == yt).cpu().numpy()
    rng = np.random.default_rng([seed, 5])
    failures, rest = rng.permutation(np.flatnonzero(~ok)), rng.permutation(np.flatnonzero(ok))
    first = len(failures) // 2 if query is None else query
    parts = {"query": failures[:first], "holdout": failures[first:], "guard": rest[::2], "remaining": rest[1::2]}
    sets = {k: (xt[torch.tensor(at, device=device)], yt[torch.tensor(at, device=device)]) for k, at in parts.items()}
    return World(nets[0], (x, y), wrong, sets, float(ok.mean()), traces[0], tuple(nets[1:]), share)


def setting_a(data: dict[str, np.ndarray], seed: int, device: str, flips: dict = ONE_WAY) -> World:
    """3,000 of MNIST's training images; failures among its 10,000 test images."""
    chosen = np.random.default_rng(seed).permutation(len(data["x_train"]))[:3000]
    train = data["x_train"][chosen] / 255.0, data["y_train"][chosen].astype(np.int64)
    test = data["x_test"] / 255.0, data["y_test"].astype(np.int64)
    return world(train, test, flips, paper_cnn, until_it_stops_improving, seed, device)


def setting_c(data: dict[str, np.ndarray], seed: int, device: str, make: Callable[[], nn.Module]) -> World:
    """500 of the 1,797 digits to train; 50 of the failures among the rest as query."""
    order = np.random.default_rng(seed).permutation(len(data["images"]))
    images, labels = data["images"][order] / 16.0, data["target"][order].astype(np.int64)
    return world(
        (images[:500], labels[:500]), (images[500:], labels[500:]), CONFUSED, make, until_it_memorised, seed, device,
        query=50, share=0.2,
    )  # fmt: skip


SETTINGS: dict[str, Callable[[dict[str, dict[str, np.ndarray]], int, str], World]] = {
    "A": lambda data, seed, device: setting_a(data["mnist"], seed, device),
    "A, symmetric": lambda data, seed, device: setting_a(data["mnist"], seed, device, SYMMETRIC),
    "C, MLP": lambda data, seed, device: setting_c(data["digits"], seed, device, small_mlp),
    "C, CNN": lambda data, seed, device: setting_c(data["digits"], seed, device, small_cnn),
}
