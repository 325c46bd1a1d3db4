"""Corrective machine unlearning (Goel et al. 2024): a model learned bad data, of which only a part is known.

    python -m benchmarks.published.corrective --data DIR --kind poison --size 500

DIR holds cifar10_train_part1..5.npz and cifar10_test.npz. *Poison*: `size` images of CIFAR-10 get a white 3x3 patch in
the lower right corner and are labelled as planes. *Confusion*: `size` / 2 cats are labelled as dogs, and as many dogs
as cats. A ResNet-9 is trained on them. The methods of the paper are told a share of the bad images: training again
without them, further training without them (fine-tuning), and selective synaptic dampening (SSD, Foster et al. 2024).
SSD shrinks weights that matter more for these images than for the rest; its settings are those that serve it best.
amends is told none of the bad images, but failures: 500 test images with the patch that are predicted as planes, or
cats and dogs that are confused with each other, and what is right in the same half of the test set. The other half
judges: accuracy where the bad data does harm (with the patch; cats and dogs), and elsewhere (without the patch; all
other classes).
"""

from __future__ import annotations

import argparse
import copy
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

import amends
from benchmarks.published.kronfluence import scaled
from benchmarks.published.resnet9 import ResNet9, step
from benchmarks.sources import Data
from benchmarks.timing import timed
from benchmarks.training import Augmented, shifted_and_mirrored

STEPS, TUNING, BATCH, RATE, DECAY = 4000, 1000, 512, 0.025, 5e-4
PATCH, PLANE, CAT, DOG = 3, 0, 3, 5
SELECTIONS = (0.1, 1, 10, 50, 100, 500, 1e3, 1e4, 1e5, 1e6)  # settings of SSD: how much more a weight must matter,
DAMPENINGS = (0.1, 0.5, 1, 5, 10)  # and how far it is then shrunk, as a multiple of that
SHOWN = 500  # how many failures amends is shown
Pair = tuple[Tensor, Tensor]
Weights = dict[str, Tensor]  # a number for every weight


@dataclass(frozen=True, eq=False)
class World:
    """The training set, which of it is bad, one half of the test set to give and one to judge with. Each half is a
    pair: where the bad data does harm, and where it does not."""

    kind: str
    train: Pair
    bad: Tensor
    given: tuple[Pair, Pair]
    judges: tuple[Pair, Pair]
    seed: int


def patched(x: Tensor, white: Tensor) -> Tensor:
    out = x.clone()
    out[:, :, -PATCH:, -PATCH:] = white
    return out


def world(data: Data, kind: str, size: int, seed: int, device: str) -> World:
    (images, labels), (tested, truth) = data.all_of_cifar()
    x, xt = scaled(images, device), scaled(tested, device)
    y, yt = (torch.tensor(part.astype(np.int64), device=device) for part in (labels, truth))
    white = scaled(np.full((1, 3, 1, 1), 255, np.uint8), device)
    rng = np.random.default_rng(seed)
    halves = np.array_split(rng.permutation(len(yt)), 2)
    if kind == "poison":
        bad = torch.tensor(rng.choice(len(y), size, replace=False), device=device)
        x[bad], y[bad] = patched(x[bad], white), PLANE
        sets = [((patched(xt[h], white), yt[h]), (xt[h], yt[h])) for h in halves]
    else:
        cats, dogs = ((y == c).nonzero().flatten()[: size // 2] for c in (CAT, DOG))
        bad = torch.cat([cats, dogs])
        y[cats], y[dogs] = DOG, CAT
        inside = (yt == CAT) | (yt == DOG)
        sets = [tuple((xt[h][at], yt[h][at]) for at in (inside[h], ~inside[h])) for h in halves]
    return World(kind, (x, y), bad, sets[0], sets[1], seed)  # pyright: ignore[reportArgumentType]


def trained(w: World, kept: Tensor, steps: int, start: nn.Module | None = None) -> nn.Module:
    """SGD with momentum .9. The rate rises over a hundredth of the steps and falls to a fifth. Uses bfloat16 on a GPU.
    When an image is shifted, its patch moves with it."""
    torch.manual_seed(w.seed)
    x, y = w.train[0][kept], w.train[1][kept]
    net = ResNet9(scale=1.0, nonlinearity=lambda: nn.CELU(0.075)) if start is None else copy.deepcopy(start)
    net = net.to(x.device).train()
    optimiser = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9, weight_decay=DECAY)
    warm = max(1, steps // 100)
    rates = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: min((i + 1) / warm, 1 - i / (1.25 * steps)))
    for _ in range(steps):
        part = torch.randint(len(x), (min(BATCH, len(x)),), device=x.device)
        step(net, optimiser, shifted_and_mirrored(x[part]), y[part])
        rates.step()
    return net.eval()


def importance(net: nn.Module, x: Tensor, y: Tensor) -> Weights:
    """The mean over batches of the squared gradient of each batch."""
    total = {k: torch.zeros_like(p) for k, p in net.named_parameters()}
    parts = list(zip(x.split(BATCH), y.split(BATCH), strict=True))
    for a, b in parts:
        net.zero_grad()
        nnf.cross_entropy(net(a), b).backward()
        for k, p in net.named_parameters():
            if p.grad is not None:
                total[k] += p.grad.square() / len(parts)
    net.zero_grad()
    return total


@torch.no_grad()
def shrunk(net: nn.Module, whole: Weights, bad: Weights, selection: float, dampening: float) -> nn.Module:
    """SSD: a weight is shrunk in proportion where the bad images matter more than `selection` times as much as all."""
    copied = copy.deepcopy(net)
    for k, p in copied.named_parameters():
        shrink = (dampening * whole[k] / bad[k].clamp(min=1e-30)).clamp(max=1)
        p.mul_(torch.where(bad[k] > selection * whole[k], shrink, torch.ones_like(p)))
    return copied


def dampened(net: nn.Module, w: World, known_bad: Tensor) -> nn.Module:
    """SSD with the search of its authors' script: the setting that is right most often, where harm is done and
    elsewhere, on the half of the test set that may be read."""
    x, y = w.train
    whole, bad = importance(net, x, y), importance(net, x[known_bad], y[known_bad])

    def right(settings: tuple[float, float]) -> float:
        candidate = shrunk(net, whole, bad, settings[0], settings[0] * settings[1])
        return sum(float((predictions(candidate, a) == b).double().mean()) for a, b in w.given)

    selection, times = max(product(SELECTIONS, DAMPENINGS), key=right)
    return shrunk(net, whole, bad, selection, selection * times)


@torch.no_grad()
def predictions(net: nn.Module, x: Tensor) -> Tensor:
    return torch.cat([net(part).argmax(1) for part in x.split(1024)])


def repaired(net: nn.Module, w: World) -> tuple[nn.Module, np.ndarray]:
    """`amends.repair` with the failures where harm is done, and what is right in the same half."""
    (xh, yh), (xo, yo) = w.given
    harmed, other = predictions(net, xh), predictions(net, xo)
    called = harmed == PLANE if w.kind == "poison" else (harmed == CAT) | (harmed == DOG)
    failed = ((harmed != yh) & called).nonzero().flatten()[:SHOWN]
    right = torch.cat([xh[harmed == yh], xo[other == yo]]), torch.cat([yh[harmed == yh], yo[other == yo]])
    train = amends.data.views(w.train, Augmented(*w.train, shifted_and_mirrored))  # as the network learned it
    result = amends.repair(net, train, (xh[failed], yh[failed]), right, batch_size=1024, seed=w.seed, progress=False)
    return result.model, result.removed


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with cifar10_train_part1..5.npz and cifar10_test.npz")
    parser.add_argument("--kind", choices=["poison", "confusion"], required=True)
    parser.add_argument("--size", type=int, required=True, help="bad images")
    parser.add_argument("--told", type=float, nargs="+", default=[0.1, 0.5, 1.0], help="shares of them that are known")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(args)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    w = world(Data(options.data), options.kind, options.size, options.seed, options.device)
    everything = torch.arange(len(w.train[1]), device=options.device)
    net, seconds = timed(lambda: trained(w, everything, options.steps))
    print("| method | told | where harm is done | elsewhere | seconds |\n|---|---|---|---|---|")

    def row(name: str, share_known: str, model: nn.Module, seconds: float, note: str = "") -> None:
        right = [f"{float((predictions(model, x) == y).double().mean()):.3f}" for x, y in w.judges]
        print(f"| {name} | {share_known} | {' | '.join(right)} | {seconds:.0f} |{note}", flush=True)

    row("as it was trained", "-", net, seconds)
    (model, removed), seconds = timed(lambda: repaired(net, w))
    bad = set(w.bad.tolist())
    hits = sum(int(i) in bad for i in removed)
    row("amends.repair", "failures alone", model, seconds, f" <!-- {len(removed)} removed, {hits} of them bad -->")
    tuning = round(options.steps * TUNING / STEPS)
    for share in options.told:
        known_bad = w.bad[torch.randperm(len(w.bad), generator=torch.Generator().manual_seed(w.seed)).to(w.bad.device)]
        known_bad = known_bad[: max(1, round(share * len(known_bad)))]
        kept = everything[~torch.isin(everything, known_bad)]
        for name, make in (
            ("SSD", lambda known_bad=known_bad: dampened(net, w, known_bad)),
            ("fine-tuning", lambda kept=kept: trained(w, kept, tuning, net)),
            ("training again", lambda kept=kept: trained(w, kept, options.steps)),
        ):
            model, seconds = timed(make)
            row(name, f"{share:.0%}", model, seconds)


if __name__ == "__main__":
    main()
