"""How the networks of the settings are trained. The run is recorded if the network is small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from amends.trace import Recorder, Trace

Augment = Callable[[Tensor], Tensor]  # changes a batch of inputs
SMALL = 2**18  # parameters up to which a run is recorded: every step has a copy of them


def until_it_stops_improving(net: nn.Module, x: Tensor, y: Tensor) -> Trace:
    """Adam with rate 1e-3 and batches of 64 for at most 100 epochs, stopped after 5 without progress on a held-out
    tenth."""
    order = torch.randperm(len(x), device=x.device)
    held_out, fitted_on = order[: len(x) // 10], order[len(x) // 10 :]
    optimiser, recorder = torch.optim.Adam(net.parameters(), lr=1e-3), Recorder(net)
    best, stale, kept, steps = float("inf"), 0, {}, 0
    for _ in range(100):
        for batch in fitted_on[torch.randperm(len(fitted_on), device=x.device)].split(64):
            _step(net, optimiser, recorder, x, y, batch)
        with torch.no_grad():
            loss = float(nnf.cross_entropy(net(x[held_out]), y[held_out]))
        if loss < best:
            best, stale, steps = loss, 0, len(recorder.trace().steps)
            kept = {k: v.clone() for k, v in net.state_dict().items()}
        else:
            stale += 1
        if stale == 5:
            break
    net.load_state_dict(kept)
    return Trace(recorder.trace().steps[:steps], recorder.trace().end)


def for_epochs(epochs: int) -> Callable[[nn.Module, Tensor, Tensor], Trace]:
    """Adam with rate 1e-3 and batches of 64, for a fixed number of epochs."""

    def fit(net: nn.Module, x: Tensor, y: Tensor) -> Trace:
        optimiser, recorder = torch.optim.Adam(net.parameters(), lr=1e-3), Recorder(net)
        for _ in range(epochs):
            for batch in torch.randperm(len(x), device=x.device).split(64):
                _step(net, optimiser, recorder, x, y, batch)
        return recorder.trace()

    return fit


def until_it_memorised(net: nn.Module, x: Tensor, y: Tensor) -> Trace:
    """Adam with rate 1e-3 and batches of 32, until 95 % of the labels are fitted, wrong ones included, or for 300
    epochs."""
    optimiser, recorder = torch.optim.Adam(net.parameters(), lr=1e-3), Recorder(net)
    for _ in range(300):
        for batch in torch.randperm(len(x), device=x.device).split(32):
            _step(net, optimiser, recorder, x, y, batch)
        with torch.no_grad():
            if float((net(x).argmax(1) == y).double().mean()) >= 0.95:
                break
    return recorder.trace()


def in_half_precision(
    net: nn.Module, x: Tensor, y: Tensor, epochs: int = 6, batch: int = 256,
    augment: Callable[[Tensor], Tensor] = lambda x: x, half: bool = True,
) -> Trace:  # fmt: skip
    """SGD with momentum .9 and decay 5e-4. The rate rises to .1 over a fifth of the steps and falls to 0. Uses bfloat16
    where autocast allows it, unless told otherwise; no augmentation unless given."""
    net.train()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = epochs * (len(x) // batch)
    rates = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 0.1, total_steps=steps, pct_start=0.2, anneal_strategy="linear"
    )
    for _ in range(epochs):
        for part in torch.randperm(len(x), device=x.device)[: len(x) // batch * batch].split(batch):
            optimiser.zero_grad()
            with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
                loss = nnf.cross_entropy(net(augment(x[part])), y[part])
            loss.backward()
            optimiser.step()
            rates.step()
    return Recorder(net).trace()


@dataclass(frozen=True, eq=False)
class Augmented:
    """Examples whose inputs are augmented anew each time they are read."""

    x: Tensor
    y: Tensor
    augment: Augment

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return self.__getitems__([i])[0]

    def __getitems__(self, at: list[int]) -> list[tuple[Tensor, Tensor]]:
        rows = torch.tensor(at, device=self.x.device)
        return list(zip(self.augment(self.x[rows]), self.y[rows], strict=True))


def shortly(net: nn.Module, x: Tensor, y: Tensor) -> Trace:
    """The same for 8 epochs in batches of 128, in single precision, which is faster on a CPU."""
    return in_half_precision(net, x, y, 8, 128, half=False)


def with_crops_and_flips(net: nn.Module, x: Tensor, y: Tensor) -> Trace:
    """The same for 24 epochs. Each image is shifted by up to four pixels and mirrored with probability one half."""
    return in_half_precision(net, x, y, 24, augment=shifted_and_mirrored)


def shifted_and_mirrored(x: Tensor) -> Tensor:
    """Shift and mirror each image independently. Uncovered pixels become zero, the mean."""
    n, size = len(x), x.shape[-1]
    shift = torch.randint(0, 9, (2, n), device=x.device)
    pixels = torch.arange(size, device=x.device)
    mirrored = torch.rand(n, device=x.device) < 0.5
    columns = torch.where(mirrored[:, None], pixels.flip(0), pixels) + shift[1][:, None]
    padded = nnf.pad(x, (4, 4, 4, 4))
    rows = pixels + shift[0][:, None]
    image = torch.arange(n, device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _step(net: nn.Module, optimiser: Any, recorder: Recorder, x: Tensor, y: Tensor, batch: Tensor) -> None:
    optimiser.zero_grad()
    nnf.cross_entropy(net(x[batch]), y[batch]).backward()
    if sum(p.numel() for p in net.parameters()) <= SMALL:
        recorder(batch.cpu().numpy(), optimiser.param_groups[0]["lr"])
    optimiser.step()
