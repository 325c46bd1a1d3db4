"""A command in a process whose disk fails at one call: the nth thing that it does to the files below a folder, a write
beyond so many bytes, or one open file too many."""

from __future__ import annotations

import errno
import os
import re
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Work = Callable[[], int]  # a command; its exit code
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE)
CALLS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.fsync")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
DRAWN = re.compile(r"-[0-9a-f]{8}\b")


class Site(NamedTuple):
    """A call, the file it is about, and the line of amends that made it."""

    call: str
    path: str
    line: str


class Ended(NamedTuple):
    """How a command ended: its exit code, what it said on stderr, and how often it called the disk."""

    code: int
    said: list[str]
    calls: int = 0

    @property
    def clean(self) -> bool:
        """One line of an error where it failed, and no traceback."""
        errors = [line for line in self.said if line.startswith("error: ")]
        return len(errors) == (self.code != 0) and not any(line.startswith("Traceback") for line in self.said)


def sites(work: Work, under: Path) -> list[Site]:
    """Every call of a command that ends well, in order."""
    log = under.parent / f"{under.name}.sites"

    def watched() -> int:
        seen: list[Site] = []
        _watch(under, seen.append)
        code = work()
        log.write_text("\n".join("\t".join(site) for site in seen))
        return code

    assert in_child(watched).code == 0
    return [Site(*line.split("\t")) for line in log.read_text().splitlines()]


def failing_at(number: int, code: int, work: Work, under: Path) -> Ended:
    """The command, with this error at its nth call; where the disk is full it stays so for whatever writes."""
    log = under.parent / f"{under.name}.calls"

    def watched() -> int:
        made = [0]

        def fail(site: Site) -> None:
            made[0] += 1
            full = code == errno.ENOSPC and made[0] > number and site.call in ("open", "os.mkdir", "os.fsync")
            if made[0] == number + 1 or full:
                raise OSError(code, os.strerror(code), site.path)

        _watch(under, fail)
        try:
            return work()
        finally:
            log.write_text(str(made[0]))

    return in_child(watched)._replace(calls=int(log.read_text()))


def writing_at_most(size: int, work: Work) -> Ended:
    """The command, where no file can become larger than this."""

    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        return work()

    return in_child(limited)


def opening_at_most(more: int, work: Work) -> Ended:
    """The command, with so many files to open beside those that are open."""

    def limited() -> int:
        held = {int(name) for name in os.listdir("/proc/self/fd")}
        free = [number for number in range(len(held) + more + 1) if number not in held]
        most = free[more] if more < len(free) else len(held) + more
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        return work()

    return in_child(limited)


def in_child(work: Work) -> Ended:
    """Its exit code, and what it says on stderr; a pipe, since a disk that is full takes no word."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(write, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
        code = 99
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(write)
    with open(read, errors="replace") as said:
        lines = said.read().splitlines()
    return Ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lines)


def _watch(under: Path, seen: Callable[[Site], Any]) -> None:
    """Calls `seen` before each thing that is done to files below a folder; what it raises is what the call raises."""
    base, busy, real = str(under.resolve()), [False], os.fsync

    def told(call: str, path: Any) -> None:
        name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        name = os.path.abspath(name)
        if busy[0] or not f"{name}{os.sep}".startswith(f"{base}{os.sep}"):
            return
        busy[0] = True
        try:
            seen(Site(call, DRAWN.sub("", os.path.relpath(name, base)), _line()))
        finally:
            busy[0] = False

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[2], int) and args[2] & WRITES and isinstance(args[0], str | bytes):
            told("open", args[0])
        elif event in CALLS and event != "open":
            told(event, args[1] if event == "os.rename" else args[0])

    def fsync(handle: int) -> None:
        told("os.fsync", os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    sys.addaudithook(hook)
    os.fsync = fsync


def _line() -> str:
    """The line of amends that does this."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if "/amends/" in file and "/tests/" not in file:
            return f"{file.rsplit('/amends/', 1)[1]}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
