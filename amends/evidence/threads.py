"""How many threads a model is computed with on a CPU.

A small one is computed with one: it is nearly as fast alone, and beside another busy process, where threads that share
a step wait for each other, it is many times faster. The number follows from the model and never from what the machine
is doing, so that a run that goes on ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils.flop_counter import FlopCounterMode

from amends.data.examples import Examples
from amends.evidence.network import Network

LIGHT = 2**21  # multiplications and additions of one example, forward, up to which a model is small


@contextmanager
def as_before() -> Iterator[None]:
    """At the end there are as many threads as at the start."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def settle(network: Network, data: Examples) -> None:
    """One thread from here on, where the model is small."""
    if network.device.type == "cpu" and torch.get_num_threads() > 1 and 0 < operations(network, data) <= LIGHT:
        torch.set_num_threads(1)


def operations(network: Network, data: Examples) -> float:
    """Multiplications and additions of one example, forward; those of layers that torch cannot count are left out."""
    few = min(2, len(data))
    x, _ = data.fetch(0, few)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            network.outputs(network.params, x)
    except Exception:  # a model that cannot be watched is computed as it would be without this
        return float("inf")
    return counter.get_total_flops() / max(1, few)
