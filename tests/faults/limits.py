"""A command with little memory, and many searches in one process."""

from __future__ import annotations

import gc
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.faults.failing import Ended, Work, in_child
from tests.projects import amends

LEVELS = (0, 2, 6, 48, 512)  # megabytes beside what the process has when the command begins


GROWTH = 16 * 2**20  # bytes that a process may hold more at the end: what allocators keep for later


class Held(NamedTuple):
    """What a process holds: bytes of memory, open files, threads."""

    memory: int
    files: int
    threads: int


def with_memory(megabytes: int, work: Work) -> Ended:
    """The command, with at most so much more address space than this process has now."""

    def capped() -> int:
        most = _status("VmSize") + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        return work()

    return in_child(capped)


def soak(times: int) -> Iterator[tuple[int, Held]]:
    """Searches one after the other in this process: after each fifth of them how many there were, and what it holds."""
    for number in range(1, times + 1):
        assert amends("identify", "-o", "soaked", "-q") == 0
        shutil.rmtree("soaked")
        if number % max(1, times // 5) == 0:
            yield number, held()


def held() -> Held:
    gc.collect()
    return Held(_status("VmRSS"), len(os.listdir("/proc/self/fd")), int(_line("Threads")))


def _status(name: str) -> int:
    return 1024 * int(_line(name).split()[0])


def _line(name: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split(":")[1] for line in lines if line.startswith(f"{name}:")).strip()
