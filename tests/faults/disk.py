"""Commands on a disk that fails: each ends with exit code 5 and one line, or well, and what was there before stays."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from amends.runs import manifest
from amends.runs.disk import locked
from amends.runs.run import Run
from tests.faults.failing import ERRORS, Ended, Site, Work, failing_at, opening_at_most, sites, writing_at_most
from tests.faults.killing import contents
from tests.projects import amends

COMMANDS = {
    "identify": ("identify", "-o", "runs/new", "-q"),
    "treat": ("treat", "runs/search", "-q"),
    "treat into another folder": ("treat", "runs/search", "-o", "runs/new", "-q"),
    "curve": ("curve", "runs/search", "-q"),
    "repair": ("repair", "-o", "runs/new", "-q"),
    "report": ("report", "runs/done"),
    "patch": ("patch", "runs/done", "-o", "runs/repair.patch"),
    "export": ("export", "runs/done", "--to", "csv", "-o", "runs/out"),
}


class Trial(NamedTuple):
    """A command, what of the disk failed, how it ended, and what was wrong with that."""

    command: str
    fault: str
    code: int
    wrong: str


Case = Callable[[], Trial]  # not tried yet


def of(command: str) -> Work:
    return lambda: amends(*COMMANDS[command])


def begin(folder: Path) -> None:
    """A project here, with a search and a finished repair under runs/."""
    assert amends("identify", "-o", "runs/search", "-q") == 0
    assert amends("repair", "-o", "runs/done", "-q") == 0
    shutil.copytree(folder / "runs", folder / "kept")


def tried(folder: Path, command: str, fault: str, how: Callable[[], Ended]) -> Trial:
    anew(folder)
    ended = how()
    return Trial(command, fault, ended.code, wrong(ended, folder))


def cases(folder: Path) -> Iterator[Case]:
    """Of every command: each error at each call, each file too large, few open files."""
    for command in COMMANDS:
        yield from trials(folder, command, every)
        yield from full_disks(folder, command)
        yield from few_files(folder, command)


def trials(folder: Path, command: str, picked: Callable[[list[Site]], Sequence[tuple[int, int]]]) -> Iterator[Case]:
    """One for each number of a call and each error that is `picked` for it."""
    runs = folder / "runs"
    anew(folder)
    found = sites(of(command), runs)
    for number, code in picked(found):
        site = found[number]
        fault = f"{errno.errorcode[code]} at {site.call} of {site.path}, {site.line}"
        yield partial(tried, folder, command, fault, partial(failing_at, number, code, of(command), runs))


def every(found: list[Site]) -> list[tuple[int, int]]:
    """Each call on each file from each line once, with each error."""
    first = {site: number for number, site in reversed(list(enumerate(found)))}
    return [(number, code) for number in sorted(first.values()) for code in ERRORS]


def full_disks(folder: Path, command: str) -> Iterator[Case]:
    """No file may become as large as one of those that the command writes, one after the other."""
    anew(folder)
    assert writing_at_most(2**40, of(command)).code == 0
    before = contents(folder / "kept")
    made = contents(folder / "runs")
    for size in sorted({len(data) for name, data in made.items() if before.get(name) != data}):
        fault = f"files of {size - 1:,} bytes at most"
        yield partial(tried, folder, command, fault, partial(writing_at_most, max(0, size - 1), of(command)))


def few_files(folder: Path, command: str, most: int = 12) -> Iterator[Case]:
    """So many files can be open at once, beside what Python has open."""
    for more in range(1, most + 1):
        fault = f"{more} more open files"
        yield partial(tried, folder, command, fault, partial(opening_at_most, more, of(command)))


def anew(folder: Path) -> None:
    shutil.rmtree(folder / "runs")
    shutil.copytree(folder / "kept", folder / "runs")


def wrong(ended: Ended, folder: Path) -> str:
    """What a command on a failing disk must never do; empty where it did none of that."""
    if ended.code not in (0, 5):
        return f"exit code {ended.code}: {ended.said[-1:]}"
    if not ended.clean:
        return f"exit code {ended.code}, and it said {ended.said}"
    runs, kept = folder / "runs", folder / "kept"
    for name in ("search", "done"):
        run = runs / name
        with locked(run):
            manifest.settle(run)
        if contents(run) != contents(kept / name) and not _next_stage(run):
            return f"{name} is neither what it was nor the next stage"
    if (runs / "new").exists():
        Run.sound(runs / "new")
    left = [p.name for p in runs.iterdir() if p.name not in ("search", "done", "new", "out", "repair.patch")]
    return f"left behind: {left}" if [name for name in left if not name.endswith(".lock")] and ended.code == 0 else ""


def _next_stage(run: Path) -> bool:
    Run.sound(run)
    return manifest.strangers(run) == []
