"""Folders written whole or not at all, by one writer at a time."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amends.errors import AmendsError, BadInput, DiskError, Locked

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def on_disk(target: Path) -> Iterator[None]:
    """What the system says of a failure becomes a DiskError."""
    try:
        yield
    except AmendsError:
        raise
    except OSError as e:
        todo = "free some space or choose another folder" if e.errno in FULL else "choose another folder"
        raise DiskError(f"{e.strerror or e}; {target}; {todo}") from e


def occupied(target: Path) -> bool:
    """Whether something is there. An empty folder is nothing, where another can be moved into its place."""
    if not target.exists() or target.is_symlink() or not target.is_dir():
        return target.exists()
    return target.is_mount() or target.resolve() == Path.cwd() or any(target.iterdir())


def write_folder(folder: Any, fill: Callable[[Path], None], *, replace: bool = False) -> Path:
    """Calls fill(empty folder), then moves the result into place in one step.

    A folder that exists is left as it is unless `replace`; then it is replaced as a whole.
    """
    target = Path(folder)
    made: Path | None = None
    with on_disk(target), locked(target):
        if occupied(target) and not replace:
            raise BadInput(f"the folder exists; {target}; choose another, or remove it first")
        try:
            made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            made.chmod(0o755)
            fill(made)
            old = made.with_name(made.name + ".old")
            if target.exists():
                os.rename(target, old)
            os.rename(made, target)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            if made is not None:
                shutil.rmtree(made, ignore_errors=True)
    return target


def add_to_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Calls fill(empty folder), then moves what is in it into `target`, run.toml last.

    run.toml says how far a run is, so whatever an interrupted writer left is written again.
    """
    with on_disk(target):
        made = Path(tempfile.mkdtemp(prefix=".adding.", dir=target))
        made.chmod(0o755)
        try:
            fill(made)
            for path in sorted(made.iterdir(), key=lambda p: p.name == "run.toml"):
                there = target / path.name
                if there.is_dir():
                    shutil.rmtree(there)
                os.replace(path, there)
        finally:
            shutil.rmtree(made, ignore_errors=True)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """One writer at a time; the lock goes with its process. Where the system has no file locks, none is taken."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with on_disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    path = target.parent / f".{target.name}.lock"
    while True:
        with on_disk(target):
            handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise Locked(
                f"another amends is writing this run; {target}; wait for it, or choose another folder"
            ) from None
        try:
            if os.stat(path).st_ino == os.fstat(handle).st_ino:
                break
        except FileNotFoundError:
            pass
        os.close(handle)  # it was removed by the one who held it before; make a new one
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
