"""Reading ahead: while one batch is computed, the next ones are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
AHEAD = 3  # batches


def ahead(reads: Iterable[Callable[[], T]]) -> Iterator[T]:
    """The results in order, a few of them begun before they are asked for."""
    waiting: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="reading")
    try:
        for read in reads:
            waiting.append(pool.submit(read))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
