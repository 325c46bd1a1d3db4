"""How a model is computed on a CPU: with how many threads, how many examples at once, and how images lie in memory.

All three depend only on the model and the shapes of its data, never on what else the machine is doing. So a run that is
continued ends with the same bits.

**Threads.** A small model is computed with one thread. That is nearly as fast on an idle machine. Next to another busy
process it is many times faster, since threads that share a step wait for each other.

**Examples at once.** Freed memory goes back to the system if a step used much of it, and the next step asks for it
again, page by page. That can take half of the time. So a batch is computed in parts, and the process keeps the memory
of a part's forward pass.

**Images.** torch pools images up to four times as fast if the channels of a pixel lie next to each other in memory, and
convolves them just as fast. A model that pools is computed in this layout, unless it cannot be.
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

LIGHT = 2**21  # a model is small up to so many multiplications and additions in the forward pass of one example
BLOCK = 2**25  # a freed block of so many bytes goes back to the system at once; the largest limit glibc allows
KEPT = BLOCK  # bytes that a forward pass may allocate; the process keeps twice as much, for the backward pass too
FEW = 4  # examples used to measure the cost of one, and to compare the two layouts of images
ALIKE = 1e-3  # how much outputs and gradients may differ between the two layouts, relative to their size
POOLS = ("max_pool2d", "avg_pool2d")


@dataclass(frozen=True)
class Cost:
    """What one example costs in a forward pass."""

    operations: float  # multiplications and additions, without layers that torch cannot count
    made: float  # bytes of all tensors that are created
    pools: bool  # whether images are pooled


@contextmanager
def as_before() -> Iterator[None]:
    """Restores the number of threads at the end."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def settle(network: Network, data: Examples, batch: int) -> int:
    """Decides how the network is computed from now on, and returns how many examples to compute at once: `batch`, or
    fewer. Nothing changes on other devices, or if the cost of the model cannot be measured."""
    few = min(FEW, batch, len(data))
    if network.device.type != "cpu" or (cost := watched(network, data, few)) is None:
        return batch
    network.room.threads = 1 if 0 < cost.operations <= LIGHT else None
    set_threads(network)
    network.room.channels_last = cost.pools and network.dtype is torch.float32 and _same_either_way(network, data, few)
    _keep_freed_blocks()
    return min(batch, at_once(network, cost))


def set_threads(network: Network) -> None:
    """Set the number of threads chosen for this network. May be called long after `settle`."""
    if network.room.threads is not None and torch.get_num_threads() > network.room.threads:
        torch.set_num_threads(network.room.threads)


def watched(network: Network, data: Examples, few: int) -> Cost | None:
    """The cost of one example, measured on the first `few`; None if it cannot be measured, or if there is no
    example."""
    if not few:
        return None
    x, _ = data.fetch(0, few)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter, _Watch() as watch:
            network.outputs(network.params, x)
    except Exception:  # a model that cannot be measured is computed without these settings
        return None
    return Cost(counter.get_total_flops() / few, watch.made / few, watch.pools)


def at_once(network: Network, cost: Cost) -> int:
    """How many examples allocate no more than `KEPT`: a power of two, so that usual batches are cut into equal parts.
    The gradient of a part is as large as the weights, so a part may always allocate twice as much as the weights
    take."""
    weights = sum(v.nbytes for v in network.params.values())
    return 2 ** max(0, floor(log2(max(KEPT, 2 * weights) / max(1.0, cost.made))))


def _same_either_way(network: Network, data: Examples, few: int) -> bool:
    """Whether outputs and gradients stay the same in the other layout of images. A model that calls `view` on the
    outputs of a layer fails there, and then keeps its layout; so does a model without a gradient."""
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
    """Free one large block: glibc then keeps freed blocks up to that size, and more memory in all. Other allocators
    have no such rule."""
    torch.empty(BLOCK - 2**16, dtype=torch.uint8)  # minus what the allocator adds to it


class _Watch(TorchDispatchMode):
    """Inside, adds up the bytes that operations allocate, and notes whether one of them pools."""

    def __init__(self) -> None:
        super().__init__()
        self.made, self.pools = 0, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        old = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        new = [t for t in tree_leaves(result) if isinstance(t, Tensor) and t.untyped_storage().data_ptr() not in old]
        self.made += sum(t.nbytes for t in new)
        self.pools = self.pools or any(name in str(func) for name in POOLS)
        return result
