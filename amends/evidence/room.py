"""How a network is computed: how many examples at once (fewer once memory is refused), with how many threads, and how
images lie in memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

R = TypeVar("R")
REFUSING = ("out of memory", "DefaultCPUAllocator", "not enough memory")  # messages of GPUs, and of torch on two CPUs


def refused(e: BaseException) -> bool:
    """Whether an error means that memory was refused: Python's, a GPU's, or the RuntimeError of torch's allocator on
    the CPU."""
    if isinstance(e, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(e, RuntimeError) and any(words in str(e) for words in REFUSING)


@dataclass(eq=False)
class Room:
    """Shared by all computations with one network: the largest batch to try, the number of threads of a small model
    (None: as many as there are), and whether the channels of a pixel lie next to each other."""

    most: int | None = None
    threads: int | None = None
    channels_last: bool = False

    def fits(self, batch: int) -> int:
        return batch if self.most is None else min(batch, self.most)

    def halving(self, batch: int, work: Callable[[], R]) -> R:
        """The result of `work`. If memory is refused, it starts again with batches of half the size, which the rest of
        the run keeps."""
        while True:
            size = self.fits(batch)
            try:
                return work()
            except (RuntimeError, MemoryError) as e:
                if size == 1 or not refused(e):
                    raise
            self.most = size // 2  # by now the error is released, and with it the tensors of its frames
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            warnings.warn(
                f"{size} examples at once do not fit into memory, so the run goes on with {self.most}; "
                f"give batch_size={self.most} to begin with it",
                stacklevel=2,
            )
