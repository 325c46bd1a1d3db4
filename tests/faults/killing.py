"""A process that is killed at the nth thing it does to the disk, as by SIGKILL: nothing is cleaned up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = ("rename", "replace", "fsync", "unlink", "mkdir", "rmdir")
KILLED, ENDED = 9, 0


def killed_at(number: int, work: Callable[[], Any]) -> bool:
    """Runs `work` in a child that dies before its nth call; whether it died, rather than came to its end."""
    child = os.fork()
    if child == 0:
        left = [number]

        def counting(real: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                if left[0] == 0:
                    os._exit(KILLED)
                left[0] -= 1
                return real(*args, **kwargs)

            return call

        for name in CALLS:
            setattr(os, name, counting(getattr(os, name)))
        try:
            work()
        except BaseException:
            os._exit(70)
        os._exit(ENDED)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (KILLED, ENDED), code
    return code == KILLED


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its path in it."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
