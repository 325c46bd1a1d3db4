"""Random wrong labels in CIFAR-10, as in the example of kronfluence: how many are found among the first tenth?

    python -m benchmarks.published.kronfluence --data DIR --seeds 0

DIR holds cifar10_train_part1..5.npz and cifar10_test.npz. The first 5,000 of the 50,000 labels are replaced at random,
a ResNet-9 is trained on them (25 epochs of SGD, batches of 512, crops and mirror images), and every training image is
ranked. The example ranks by self-influence with EK-FAC, ∇log p(z)ᵀ P⁻¹ ∇log p(z), which is reimplemented here. Methods
of amends get the errors on the test set as failures, and half of what the network gets right.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from amends import methods
from amends.algorithm.identify import identify
from amends.curvature import Empirical, Part, general_grads
from amends.evaluation.rankings import average_precision
from amends.evidence import Factor
from benchmarks.published.resnet9 import ResNet9, step
from benchmarks.sources import Data
from benchmarks.timing import timed
from benchmarks.training import shifted_and_mirrored

WRONG, EPOCHS, BATCH, RATE, DECAY = 0.1, 25, 512, 0.4, 1e-3
MEAN, SPREAD = (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261)
AT_ONCE = 256  # how many per-example gradients are in memory at once
CURVED = 10_000  # how many images the factors are measured on


@dataclass(frozen=True, eq=False)
class World:
    """A network that learned wrong labels, and two parts of the test set: its failures, and half of what it gets
    right."""

    net: nn.Module
    train: tuple[Tensor, Tensor]
    wrong: np.ndarray
    failures: tuple[Tensor, Tensor]
    right: tuple[Tensor, Tensor]
    accuracy: float


def scaled(images: np.ndarray, device: str) -> Tensor:
    mean, spread = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, SPREAD))
    return ((torch.tensor(images) / 255 - mean) / spread).to(device)


def fitted(x: Tensor, y: Tensor, seed: int, epochs: int) -> nn.Module:
    """SGD without momentum. The rate rises over a fifth of the epochs and falls to 0. Uses bfloat16 on a GPU."""
    torch.manual_seed(seed)
    net = ResNet9().to(x.device)
    optimiser = torch.optim.SGD(net.parameters(), lr=RATE, weight_decay=DECAY)
    batch = min(BATCH, len(x))
    steps = len(x) // batch
    peak = max(1, epochs // 5) * steps
    rates = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda i: i / peak if i < peak else (epochs * steps - i) / max(1, epochs * steps - peak)
    )
    for _ in range(epochs):
        for part in torch.randperm(len(x), device=x.device)[: steps * batch].split(batch):
            step(net, optimiser, shifted_and_mirrored(x[part]), y[part])
            rates.step()
    return net.eval()


def world(data: Data, seed: int, device: str, epochs: int) -> World:
    (images, true), (tested, yt) = data.all_of_cifar()
    rng = np.random.default_rng(seed)
    labels, wrong = true.astype(np.int64), np.arange(len(true)) < WRONG * len(true)
    labels[wrong] = (labels[wrong] + rng.integers(1, 10, wrong.sum())) % 10
    x, xt = scaled(images, device), scaled(tested, device)
    y, truth = torch.tensor(labels, device=device), torch.tensor(yt.astype(np.int64), device=device)
    net = fitted(x, y, seed, epochs)
    with torch.no_grad():
        correct = torch.cat([net(part).argmax(1) for part in xt.split(1024)]) == truth
    right = correct.nonzero().flatten()[::2]
    return World(
        net, (x, y), wrong, (xt[~correct], truth[~correct]), (xt[right], truth[right]), float(correct.double().mean())
    )


@dataclass(frozen=True)
class SelfInfluence:
    """∇log p(z)ᵀ P⁻¹ ∇log p(z) with EK-FAC: how much leaving z out would change the prediction of z itself."""

    at_once: int = AT_ONCE

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        network, theta = train.network, train.network.params
        precision = Part(methods.ekfac(), CURVED)(train, theta)
        probe, rows = Empirical().probe(train), []
        for at, x, y, _ in replace(train, batch=self.at_once).tiles():
            with torch.no_grad():
                (vector,) = probe(network.outputs(theta, x), y, at)
            grads = general_grads(network, theta, x, vector, tuple(theta))
            moved = vmap(precision.solve)(grads)
            rows.append(torch.stack([(grads[k] * moved[k]).flatten(1).sum(1) for k in grads]).sum(0).cpu())
        return torch.cat(rows)


def by(method: Any) -> Callable[[World], np.ndarray]:
    def scores(w: World) -> np.ndarray:
        return identify(
            w.net, w.train, w.failures, w.right, method=method, batch_size=1024, progress=False
        ).scores  # fmt: skip

    return scores


ROWS: dict[str, Callable[[World], np.ndarray]] = {
    "loss": by(methods.loss()),
    "self-influence, EK-FAC": by(SelfInfluence()),
    "default": by(methods.default()),
    "grad_dot": by(methods.grad_dot()),
    "random": by(methods.random(0)),
}


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with cifar10_train_part1..5.npz and cifar10_test.npz")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", choices=list(ROWS), metavar="METHOD", default=list(ROWS), help="rows")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(args)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    columns = ("method", "seed", "first 10 %", "first 20 %", "average precision", "seconds")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
    for seed in options.seeds:
        w, training = timed(lambda seed=seed: world(Data(options.data), seed, options.device, options.epochs))
        print(f"<!-- seed {seed}: {w.accuracy:.4f} of the test set is right, {training:.0f} s to train -->", flush=True)
        for name in options.methods:
            scores, seconds = timed(lambda name=name, w=w: ROWS[name](w))
            order = np.argsort(-scores, kind="stable")
            shares = [w.wrong[order[: round(share * len(order))]].sum() / w.wrong.sum() for share in (0.1, 0.2)]
            cells = [*(f"{s:.3f}" for s in (*shares, average_precision(scores, w.wrong))), f"{seconds:.1f}"]
            print(f"| {name} | {seed} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
