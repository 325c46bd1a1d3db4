"""Batches on their way to a GPU: while one is computed, the next one is copied."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache

import torch
from torch import Tensor

from amends.data.ahead import AHEAD
from amends.data.inputs import Inputs, each, leaves


@cache
def _copying(device: torch.device) -> torch.cuda.Stream:
    """One for all that is sent there, since what a stream was given is kept for it."""
    return torch.cuda.Stream(device)


def sent(pinned: Iterable[tuple[Inputs, Tensor]], device: torch.device) -> Iterator[tuple[Inputs, Tensor]]:
    """Batches on a GPU, in order. Nothing is waited for until a few of them have been taken that are not yet computed:
    reading is mostly faster than computing, and would fill the memory."""
    copying, taken = _copying(device), deque[torch.Event]()
    for x, y in pinned:
        computing = torch.cuda.current_stream(device)
        with torch.cuda.stream(copying):
            x, y = (each(part, lambda t: t.to(device, non_blocking=True)) for part in (x, y))
        computing.wait_stream(copying)
        for t in (*leaves(x), y):
            t.record_stream(computing)
        yield x, y
        taken.append(computing.record_event())
        if len(taken) > AHEAD:
            taken.popleft().synchronize()
