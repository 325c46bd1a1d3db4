"""What one process of each machine does for the others there."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from amends.distributed.group import alone, attempted, every, rank, together, world

T = TypeVar("T")
_READS: ContextVar[bool] = ContextVar("reads", default=False)


@contextmanager
def one_reads() -> Iterator[None]:
    """Inside, a large table is read by one process of each machine, and the others share its temporary file. Every
    process must read the same tables, in one order."""
    token = _READS.set(True)
    try:
        yield
    finally:
        _READS.reset(token)


def once_a_machine(work: Callable[[], T]) -> T:
    """What `work` returns, which must pickle. Inside `one_reads` one process of each machine does it; another does so
    for itself where it cannot open what the first one has."""
    if world() == 1 or not _READS.get():
        return work()
    hosts = every(socket.gethostname())
    firsts = sorted({hosts.index(host) for host in hosts})
    value, error = None, None
    if rank() in firsts:
        with alone():
            value, error = attempted(work)
    packed = None if error is not None else pickle.dumps(value)
    failed = next((e for e in every(error) if e is not None), None)
    if failed is not None:
        raise error or failed
    for first in firsts:
        theirs = _from(first, packed)
        if hosts[rank()] == hosts[first] and rank() != first:
            value = _opened(theirs)
    every(None)  # the first ones keep their files open until here
    return work() if value is None else value


def _from(first: int, packed: bytes | None) -> bytes:
    import torch.distributed as dist

    box = [packed]
    with together():
        dist.broadcast_object_list(box, first)
    return box[0] or b""


def _opened(packed: bytes) -> Any:
    """None where what was packed cannot be opened from here."""
    try:
        return pickle.loads(packed)
    except OSError:
        return None
