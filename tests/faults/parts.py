"""The cases of a fault, shared out over processes: each takes every nth of them, and says how it ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
EVERY, MOST = 10.0, 20  # seconds between two lines that say how far it is; cases shown that went wrong


class Outcome(NamedTuple):
    """How a case ended. `wrong` is what should never happen, empty where nothing did; cases of one `key` are one."""

    number: int
    way: str
    wrong: str = ""
    key: str = ""


class Part(NamedTuple):
    """Every nth case, from a number on, of the `count` that are asked for."""

    number: int
    of: int
    count: int

    def mine(self, cases: Iterable[T]) -> Iterator[tuple[int, T]]:
        """Those of this part, each with its number; another number of parts gives the same cases the same numbers."""
        return islice(enumerate(cases), self.number, None, self.of)


Work = Callable[[Part], Iterator[Outcome]]


class Kind(NamedTuple):
    """A fault: its cases in a folder of their own, how many are usual, what is shown by them, seconds for one case."""

    work: Work
    count: int
    shows: str
    limit: int = 60


@dataclass
class Tally:
    """What has been tried so far."""

    tried: int = 0
    ways: Counter[str] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.tried += 1
        self.ways[outcome.way] += 1
        self.keys.add(outcome.key or str(outcome.number))
        if outcome.wrong:
            self.wrong.append(f"case {outcome.number}: {outcome.wrong}")
            if len(self.wrong) <= MOST:
                print(f"  {self.wrong[-1][:400]}", flush=True)

    def __str__(self) -> str:
        told = f"{self.tried - len(self.wrong):,} of {self.tried:,}"
        return told if len(self.keys) == self.tried else f"{told} ({len(self.keys):,} of them distinct)"

    def ended(self, kind: Kind) -> str:
        ways = [f"{way}: {number:,}" for way, number in self.ways.most_common()]
        return f"{self} {kind.shows}; " + ("; ".join(ways) if len(ways) <= 12 else f"{len(ways)} distinct ways to end")


def shared(name: str, kind: Kind, parts: list[Part], seconds: float) -> Tally:
    """A process for each part. One that dies, or takes too long over a case, is a case that went wrong: another goes
    on behind it. After so many seconds all of them are stopped."""
    tally, begun = Tally(), time.monotonic()
    told = begun
    with tempfile.TemporaryDirectory(prefix="amends-faults-") as folder:
        running = dict(_started(kind, part, folder) for part in parts)
        try:
            while running and time.monotonic() < begun + seconds:
                for pipe in wait(list(running), timeout=1.0):
                    assert isinstance(pipe, Connection)
                    try:
                        running[pipe].heard(tally, pipe.recv())
                    except EOFError:
                        running |= _replaced(running.pop(pipe), kind, tally, folder)
                if time.monotonic() > told + EVERY:
                    told = time.monotonic()
                    print(f"  {name}: {tally} after {told - begun:.0f} s", flush=True)
        finally:
            for worker in running.values():
                worker.stop()
    cut = f", cut off after {seconds:.0f} s" if running else ""
    took = time.monotonic() - begun
    print(f"{name}: {tally.ended(kind)} ({len(parts)} processes, {took:.0f} s{cut})", flush=True)
    return tally


@dataclass
class _Worker:
    part: Part
    process: Any
    last: int | None = None

    def heard(self, tally: Tally, outcome: Outcome) -> None:
        self.last = outcome.number
        tally.add(outcome)

    def stop(self) -> None:
        """With all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()


def _started(kind: Kind, part: Part, folder: str) -> tuple[Connection, _Worker]:
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_work, args=(kind, part, there, folder))
    process.start()
    there.close()
    return here, _Worker(part, process)


def _replaced(worker: _Worker, kind: Kind, tally: Tally, folder: str) -> dict[Connection, _Worker]:
    """Whoever goes on where a part ended before its time; nobody where it never began."""
    worker.process.join()
    code, part = worker.process.exitcode, worker.part
    worker.stop()
    if code == 0:
        return {}
    number = part.number if worker.last is None else worker.last + part.of
    tally.add(Outcome(number, "its process died", f"its process died with {code}"))
    return {} if worker.last is None else dict([_started(kind, part._replace(number=number + part.of), folder)])


def _work(kind: Kind, part: Part, pipe: Connection, folder: str) -> None:
    os.setpgrp()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    own = tempfile.mkdtemp(dir=folder)
    os.environ["XDG_STATE_HOME"] = str(Path(own) / "state")
    with contextlib.chdir(own), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        signal.alarm(5 * kind.limit)  # beginning takes longer than a case
        for outcome in kind.work(part):
            pipe.send(outcome)
            signal.alarm(kind.limit)
