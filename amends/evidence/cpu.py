"""How a model is computed on a CPU: with how many threads, how many examples at once, and how images lie in memory.

All three follow from the model and the shapes of its data, never from what the machine is doing, so that a run that
goes on ends with the same bits.

**Threads.** A small model is computed with one: it is nearly as fast alone, and beside another busy process, where
threads that share a step wait for each other, it is many times faster.

**Examples at once.** Memory that a step has freed goes back to the system where there is much of it, and the next step
asks for it again, page by page. That can take half of the time. So a batch is computed in parts, and what a forward
pass of a part makes is kept by the process.

**Images.** torch pools images up to four times as fast where the channels of a pixel lie side by side, and convolves
them no slower. A model that pools is computed that way, unless it cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import floor, log2
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from amends.data.examples import Examples
from amends.evidence.network import Network

LIGHT = 2**21  # multiplications and additions of one example, forward, up to which a model is small
BLOCK = 2**25  # bytes from which a freed block goes back to the system at once, at the most that glibc allows
KEPT = BLOCK  # bytes that a forward pass may make; the process keeps twice as much, for the backward pass too
FEW = 4  # examples on which the cost of one is measured, and on which the two layouts are compared
ALIKE = 1e-3  # how much outputs and gradients may differ with channels side by side, relative to their size
POOLS = ("max_pool2d", "avg_pool2d")


@dataclass(frozen=True)
class Cost:
    """What one example costs in a forward pass."""

    operations: float  # multiplications and additions; those of layers that torch cannot count are left out
    made: float  # bytes of all tensors together
    pools: bool  # whether images are pooled


@contextmanager
def as_before() -> Iterator[None]:
    """At the end there are as many threads as at the start."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def settle(network: Network, data: Examples, batch: int) -> int:
    """Sets how the network is computed from here on, and returns how many examples to compute at once: `batch`, or
    fewer. Nothing changes on another device, or where the cost of the model cannot be measured."""
    few = min(FEW, batch, len(data))
    if network.device.type != "cpu" or (cost := watched(network, data, few)) is None:
        return batch
    network.room.threads = 1 if 0 < cost.operations <= LIGHT else None
    set_threads(network)
    network.room.channels_last = cost.pools and network.dtype is torch.float32 and _same_either_way(network, data, few)
    _keep_freed_blocks()
    return min(batch, at_once(network, cost))


def set_threads(network: Network) -> None:
    """As many threads as were settled on for this network; it may be called long after."""
    if network.room.threads is not None and torch.get_num_threads() > network.room.threads:
        torch.set_num_threads(network.room.threads)


def watched(network: Network, data: Examples, few: int) -> Cost | None:
    """The cost of one of the first `few` examples; None where it cannot be measured, or there is no example."""
    if not few:
        return None
    x, _ = data.fetch(0, few)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter, _Watch() as watch:
            network.outputs(network.params, x)
    except Exception:  # a model that cannot be watched is computed as it would be without this
        return None
    return Cost(counter.get_total_flops() / few, watch.made / few, watch.pools)


def at_once(network: Network, cost: Cost) -> int:
    """How many examples make no more than `KEPT`, as a power of two, so that usual batches are cut into equal parts.
    No fewer than make as much as the weights take, since the gradient of a part is as large as those."""
    weights = sum(v.nbytes for v in network.params.values())
    return 2 ** max(0, floor(log2(max(KEPT, 2 * weights) / max(1.0, cost.made))))


def _same_either_way(network: Network, data: Examples, few: int) -> bool:
    """Whether outputs and gradients stay the same with the channels of a pixel side by side. A model that calls `view`
    on the outputs of a layer fails then, and a model without a gradient stays as it is."""
    x, _ = data.fetch(0, few)
    try:
        usual = _outputs_and_gradient(network, x)
        network.room.channels_last = True
        other = _outputs_and_gradient(network, x)
    except Exception:
        return False
    finally:
        network.room.channels_last = False
    return all(bool((a - b).abs().sum() <= ALIKE * a.abs().sum()) for a, b in zip(usual, other, strict=True))


def _outputs_and_gradient(network: Network, x: Any) -> tuple[Tensor, ...]:
    live = {k: p.detach().requires_grad_() for k, p in network.params.items()}
    with torch.enable_grad():
        out = network.outputs(live, x)
        grads = torch.autograd.grad(out.square().sum(), list(live.values()), materialize_grads=True)
    return (out.detach(), *grads)


def _keep_freed_blocks() -> None:
    """A large block that is freed raises the size up to which glibc keeps blocks, and how much it keeps in all. Other
    allocators have no such rule."""
    torch.empty(BLOCK - 2**16, dtype=torch.uint8)  # less what an allocation adds to it


class _Watch(TorchDispatchMode):
    """Inside, it adds up the bytes that operations make, and notes whether one of them pools."""

    def __init__(self) -> None:
        super().__init__()
        self.made, self.pools = 0, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        old = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        new = [t for t in tree_leaves(found) if isinstance(t, Tensor) and t.untyped_storage().data_ptr() not in old]
        self.made += sum(t.nbytes for t in new)
        self.pools = self.pools or any(name in str(func) for name in POOLS)
        return found
