"""Folders written whole or not at all, by one writer at a time, and safe on the disk once they have their name."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from amends.errors import AmendsError, BadInput, DiskError, Locked

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MAKING = "making"  # in the name of a folder that is being written
HELD: dict[tuple[str, int], int] = {}  # locks of this process, by path and thread, and how often each is taken


@contextmanager
def on_disk(target: Path) -> Iterator[None]:
    """An OSError inside becomes a DiskError."""
    try:
        yield
    except AmendsError:
        raise
    except OSError as e:
        todo = "free some space or choose another folder" if e.errno in FULL else "choose another folder"
        raise DiskError(f"{e.strerror or e}; {target}; {todo}") from e


def occupied(target: Path) -> bool:
    """Whether something is there. An empty folder does not count if another can be moved into its place."""
    if not target.exists() or target.is_symlink() or not target.is_dir():
        return target.exists()
    return target.is_mount() or target.resolve() == Path.cwd() or any(target.iterdir())


def write_folder(folder: Any, fill: Callable[[Path], None], *, replace: bool = False) -> Path:
    """Calls fill(empty folder), then moves the result into place in one step.

    A folder that exists is left as it is unless `replace`; then it is replaced as a whole.
    """
    target = Path(folder)
    with on_disk(target), locked(target):
        sweep(target.parent, target.name)
        if occupied(target) and not replace:
            raise BadInput(f"the folder exists; {target}; choose another, or remove it first")
        temporary = fresh(target.parent, target.name)
        try:
            fill(temporary)
            flush(temporary)
            old = temporary.with_name(f"{temporary.name}.old")
            if target.exists():
                os.rename(target, old)
            os.rename(temporary, target)
            flush_names(target.parent)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def write_file(target: Path, fill: Callable[[Path], Any]) -> Path:
    """Calls fill(path of an empty file), then moves it into place in one step; nothing is overwritten."""
    with on_disk(target), locked(target):
        temporary = target.parent / f".{target.name}.{MAKING}-{secrets.token_hex(4)}"
        sweep(target.parent, target.name)
        try:
            temporary.touch()
            fill(temporary)
            flush_file(temporary)
            if target.exists():
                raise BadInput(f"the target exists; {target}; choose another with -o, or remove it first")
            os.replace(temporary, target)
            flush_names(target.parent)
        finally:
            temporary.unlink(missing_ok=True)
    return target


def fresh(parent: Path, name: str) -> Path:
    """A new folder whose name shows that it is unfinished, with the permissions of the user's umask."""
    folder = parent / f".{name}.{MAKING}-{secrets.token_hex(4)}"
    folder.mkdir()
    return folder


def sweep(parent: Path, name: str) -> None:
    """Removes what a killed writer left behind. The caller holds the lock."""
    left = re.compile(rf"\.{re.escape(name)}\.{MAKING}-[0-9a-f]{{8}}(\.old)?\Z")
    for path in parent.iterdir() if parent.is_dir() else ():
        if left.match(path.name):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def writable(folder: Path) -> None:
    """DiskError, before anything is computed, unless the folder can be written to."""
    with on_disk(folder):
        fresh(folder, "trying").rmdir()


def room_for(folder: Path, size: int) -> None:
    """DiskError unless `size` bytes are free where the folder is or will be."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    with on_disk(folder):
        left = shutil.disk_usage(existing).free
    if left < size:
        need = f"about {size / 2**20:,.0f} MB are needed, and {left / 2**20:,.0f} MB are free"
        raise DiskError(f"{need}; {folder}; free some space or choose another folder")


def flush(folder: Path) -> None:
    """Forces every file and every name in a folder onto the disk."""
    for path in [*folder.rglob("*"), folder]:
        if path.is_dir() and not path.is_symlink():
            flush_names(path)
        elif stat.S_ISREG(path.lstat().st_mode):
            flush_file(path)


def flush_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def flush_names(folder: Path) -> None:
    """Forces the names in a folder onto the disk, if the system can do this for folders."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as e:
        if e.errno in (errno.EACCES, errno.EPERM, errno.EISDIR):
            return
        raise
    try:
        os.fsync(handle)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """One writer at a time. The lock ends with its process, and a thread that has it may take it again. If the system
    has no file locks, none is taken."""
    key = (str(target.resolve()), threading.get_ident())
    if key in HELD:
        HELD[key] += 1
        try:
            yield
        finally:
            HELD[key] -= 1
        return
    try:
        import fcntl  # noqa: F401
    except ImportError:
        yield
        return
    with on_disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    path = target.parent / f".{target.name}.lock"
    handle = _taken(path, target)
    HELD[key] = 1
    try:
        yield
    finally:
        del HELD[key]
        with suppress(OSError):  # what was written stays written; an empty file holds no lock
            path.unlink(missing_ok=True)
        os.close(handle)


def _taken(path: Path, target: Path) -> int:
    """The lock file, opened and locked."""
    import fcntl

    while True:
        with on_disk(target):
            handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise Locked(
                f"another amends is writing this run; {target}; wait for it, or choose another folder"
            ) from None
        try:
            if os.stat(path).st_ino == os.fstat(handle).st_ino:
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)  # it was removed by the one who held it before; make a new one
