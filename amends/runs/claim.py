"""The folder of a run, claimed before anything is loaded: a second process is refused at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from amends.distributed.group import held_by_first
from amends.errors import BadInput, Locked, RunMismatch
from amends.runs import manifest
from amends.runs.disk import locked, occupied, on_disk, sweep, writable
from amends.runs.run import Run

HOME = Path("runs")


def claimed(out: Path | None, stem: str, *, going_on: bool = False) -> AbstractContextManager[Path]:
    """A context with a folder that nobody else writes into: `out`, or runs/stem-1 or the next free number. With
    `going_on`, `out` may also be a run that was stopped. Of several processes the first claims it."""
    return held_by_first(_claimed(out, stem, going_on))


@contextmanager
def _claimed(out: Path | None, stem: str, going_on: bool) -> Iterator[Path]:
    if out is None:
        with _next(stem) as chosen:
            yield chosen
        return
    with locked(out):
        with on_disk(out):
            sweep(out.parent, out.name)
        if going_on and occupied(out):
            unfinished(out)
        else:
            free(out)
        yield out


def free(out: Path) -> None:
    """BadInput if something is in the way, DiskError if nothing can be written."""
    if occupied(out):
        raise BadInput(f"the folder exists; {out}; choose another with -o, or remove it with amends runs rm")
    with on_disk(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    writable(out.parent)


def unfinished(out: Path) -> Run:
    """The run that was stopped, its files checked; the caller holds the lock."""
    if not (out / "run.toml").exists() and not manifest.unsettled(out):
        raise RunMismatch(f"the folder holds something that is not a run; {out}; choose another with -o")
    with Run.writing(out) as run:
        if run.done:
            raise BadInput(
                f"the run is finished; {out}; choose another folder with -o, or remove it with amends runs rm"
            )
        return run


@contextmanager
def _next(stem: str) -> Iterator[Path]:
    for k in range(1, 10**6):
        out = HOME / f"{stem}-{k}"
        if out.exists():
            continue
        with ExitStack() as held:
            try:
                held.enter_context(locked(out))
            except Locked:
                continue
            if not out.exists():
                free(out)
                yield out
                return
