"""What computing a batch in parts saves on a CPU, and storing the channels of each pixel side by side.

    OMP_NUM_THREADS=1 python benchmarks/cpu.py

CPU seconds of a pass over 1,024 random images, forward alone and with the gradient, as shares of a plain torch loop
with batches of 64. Each figure is the lowest of several processes, run in turn: how fast a process is depends on the
memory it has used before. Needs torch and numpy alone, and no data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import torch
from networks import paper_cnn, strided_cnn
from resnet import resnet18
from torch import nn
from torch.nn import functional as nnf

from amends.evidence import cpu
from amends.evidence.prepare import prepare

IMAGES, BATCH, REPEATS = 1024, 256, 3


def pooling_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 64, 10),
    )  # fmt: skip


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


NETWORKS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "LeNet, 28x28": ((1, 28, 28), lenet),
    "the paper's CNN, 28x28": ((1, 28, 28), paper_cnn),
    "three convolutions and pooling, 32x32": ((3, 32, 32), pooling_cnn),
    "three convolutions with strides, 28x28": ((1, 28, 28), strided_cnn),
    "ResNet-18, 32x32, no pooling": ((3, 32, 32), resnet18),
}
WAYS = ("plain loop", "amends, whole batches", "amends, in parts", "amends")


def seconds(name: str, way: str) -> tuple[float, float]:
    """CPU seconds of a pass, forward and with the gradient. Two passes are run and the second is measured."""
    shape, make = NETWORKS[name]
    torch.manual_seed(0)
    net, x, y = make().eval(), torch.randn(IMAGES, *shape), torch.randint(10, (IMAGES,))
    if way == "plain loop":
        return _second(lambda: _forward(net, x)), _second(lambda: _gradient(net, x, y))
    changes = [patch.object(cpu, "POOLS", ())] if way == "amends, in parts" else []
    if way == "amends, whole batches":
        changes = [patch("amends.evidence.prepare.settle", lambda network, data, batch: batch)]
    for change in changes:
        change.start()
    data = prepare(net, None, None, BATCH, train=(x, y))["train"]
    theta = data.network.params
    with torch.no_grad():
        return _second(lambda: data.outputs(theta)), _second(lambda: data.value_and_grad(theta))


def _forward(net: nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        for batch in x.split(64):
            net(batch)


def _gradient(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    for images, labels in zip(x.split(64), y.split(64), strict=True):
        torch.autograd.grad(nnf.cross_entropy(net(images), labels), list(net.parameters()))


def _second(work: Callable[[], object]) -> float:
    work()
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("NETWORK", "WAY"), help="for the processes of its own")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(seconds(*args.one)))
        return
    print(f"| network | {' | '.join(f'{way}: forward, with gradient' for way in WAYS[1:])} |")
    print("|---" * len(WAYS) + "|")
    for name in NETWORKS:
        least = {way: (float("inf"), float("inf")) for way in WAYS}
        for _ in range(REPEATS):
            for way in WAYS:
                command = [sys.executable, __file__, "--one", name, way]
                pair = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                least[way] = (min(least[way][0], pair[0]), min(least[way][1], pair[1]))
        plain = least.pop("plain loop")
        cells = [f"{forward / plain[0]:.2f}, {both / plain[1]:.2f}" for forward, both in least.values()]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
