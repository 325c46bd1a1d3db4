"""What a run folder holds, with the sha256 of every file: written last, so that damage is found before it is used.

A stage is added in one step. Its files wait in `.ready/` with the manifest of the whole folder; once that name is
there the stage counts, and if its writer was killed, the next process that opens the folder moves the files.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from amends.distributed.group import by_first
from amends.errors import DiskError, RunMismatch
from amends.runs.disk import flush, flush_file, flush_names, fresh, locked, on_disk, sweep, write_folder

NAME, READY = "manifest.sha256", ".ready"
REPAIRS = "repairs"  # of a review, each a run of its own
REVIEW = re.compile(
    r"repairs(/(\.\d+\.lock|\d+\.safetensors))?|review(/(token|address|\.open\.lock|decisions\.sqlite(-\w+)?|\w+\.(part|zip)|jobs(/\d+\.\w+)?))?"
)  # other files that a review adds to a run
EDITED = "causes.csv"  # people may change it: it is checked for sense when it is read, not against a hash
FIRST = "run.toml"  # its line is the last, so that a manifest that was cut short lacks it
ADDING = "adding"
LINE = re.compile(r"([0-9a-f]{64})  ([^\x00-\x1f\x7f]+)")
AGAIN = "make the run again, or copy all of it"


@by_first
def write_run(folder: Any, fill: Callable[[Path], None], *, replace: bool = False) -> Path:
    """A run folder, whole or not at all, with its manifest."""

    def filled(target: Path) -> None:
        fill(target)
        seal(target)

    return write_folder(folder, filled, replace=replace)


def seal(folder: Path) -> None:
    """Writes the manifest of all that is in a folder now."""
    _write(folder, {name: _sha256(folder / name) for name in _names(folder)})


@by_first
def add_to_run(folder: Path, fill: Callable[[Path], None], drop: Collection[str] = ()) -> None:
    """Calls fill(empty folder), then moves its files into the run and deletes the files to `drop`, all in one
    step."""
    with on_disk(folder), locked(folder):
        settle(folder)
        temporary = fresh(folder, ADDING)
        try:
            fill(temporary)
            known = {name: value for name, value in read(folder).items() if name not in drop}
            _write(temporary, known | {name: _sha256(temporary / name) for name in _names(temporary)})
            flush(temporary)
            os.rename(temporary, folder / READY)
            flush_names(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        settle(folder)


def settle(folder: Path) -> None:
    """Finishes a step that was committed, and removes one that was not. The caller holds the lock."""
    sweep(folder, ADDING)
    ready = folder / READY
    if not ready.exists():
        return
    if not (ready / NAME).exists():  # all of it is in place already
        shutil.rmtree(ready)
        return
    new = read(ready)
    for name in (*_names(ready), *([EDITED] if (ready / EDITED).exists() else [])):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(ready / name, folder / name)
        flush_names((folder / name).parent)
    for name in read(folder).keys() - new.keys() if (folder / NAME).exists() else ():
        (folder / name).unlink(missing_ok=True)
        parent = (folder / name).parent
        if parent != folder and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
    os.replace(ready / NAME, folder / NAME)
    flush_names(folder)
    shutil.rmtree(ready)


def unsettled(folder: Path) -> bool:
    """Whether a writer was killed while it moved a finished stage into place."""
    return (folder / READY).is_dir()


def read(folder: Path) -> dict[str, str]:
    """The sha256 of each file, by its path in the folder."""
    path = folder / NAME
    try:
        lines = path.read_bytes().decode().split("\n")
        lines = lines[:-1] if not lines[-1] else [""]  # every line is ended
    except FileNotFoundError:
        raise RunMismatch(f"{NAME} is missing; {folder}; {AGAIN}") from None
    except UnicodeDecodeError:
        lines = [""]
    except OSError as e:
        raise DiskError(f"{e.strerror or e}; {path}; check the disk and the permissions of the file") from e
    matches = [LINE.fullmatch(line) for line in lines]
    hashes = {m[2]: m[1] for m in matches if m is not None}
    outside = [name for name in hashes if Path(name).is_absolute() or ".." in Path(name).parts]
    if None in matches or len(hashes) < len(matches) or FIRST not in hashes or outside:
        raise RunMismatch(f"{NAME} is damaged; {path}; {AGAIN}")
    return hashes


def damage(folder: Path, but: Collection[str] = ()) -> Iterator[str]:
    """A line for each damaged or missing file of a run, except those in `but`."""
    for name, value in read(folder).items():
        if name in but:
            continue
        path = folder / name
        try:
            if _sha256(path) != value:
                yield f"{name} is not as it was written; {path}; {AGAIN}"
        except FileNotFoundError:
            yield f"{name} is missing; {folder}; {AGAIN}"
        except OSError as e:
            yield f"{name} cannot be read ({e.strerror}); {path}; {AGAIN}"
    if EDITED not in but and not (folder / EDITED).is_file():
        yield f"{EDITED} is missing; {folder}; {AGAIN}"


def verify(folder: Path, but: Collection[str] = ()) -> None:
    """RunMismatch if a file of the run is damaged or missing, except those in `but`."""
    for line in damage(folder, but):
        raise RunMismatch(line)


def strangers(folder: Path) -> list[str]:
    """Files, links and empty folders that amends did not write, wherever they are."""
    ours = {*read(folder), NAME, EDITED}
    folders = {str(parent) for name in ours for parent in Path(name).parents}
    unknown = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        known = name in ours or name in folders or name.startswith((READY, f".{ADDING}."))
        if not known and not REVIEW.fullmatch(name) and not _of_a_repair(folder, name):
            unknown.append(name)
    return sorted(unknown)


def _of_a_repair(folder: Path, name: str) -> bool:
    """Whether a file is in one of the repairs of a review, which are runs of their own."""
    parts = Path(name).parts
    return parts[0] == REPAIRS and len(parts) > 1 and (folder / parts[0] / parts[1] / FIRST).is_file()


def repairs(folder: Path) -> list[Path]:
    """The repairs of a review, as runs of their own."""
    return sorted(path.parent for path in (folder / REPAIRS).glob(f"*/{FIRST}"))


def remove_own(folder: Path) -> None:
    """Deletes the files of a run, then the empty folders; nothing else."""
    settle(folder)
    for name in (*read(folder), EDITED, NAME):
        (folder / name).unlink(missing_ok=True)
    for path in folder.rglob("*"):
        if REVIEW.fullmatch(path.relative_to(folder).as_posix()) and path.is_file():
            path.unlink(missing_ok=True)
    inside = [path for path in folder.rglob("*") if path.is_dir()]
    for path in sorted(inside, key=lambda p: -len(p.parts)):
        path.rmdir()
    folder.rmdir()


def _names(folder: Path) -> list[str]:
    """Paths of the files in a folder, without the manifest and causes.csv; run.toml is the last."""
    names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    return sorted((n for n in names if n not in (NAME, EDITED)), key=lambda n: (n == FIRST, n))


def _write(folder: Path, hashes: dict[str, str]) -> None:
    """Writes the manifest in the form that sha256sum --check reads."""
    names = sorted(hashes, key=lambda n: (n == FIRST, n))
    path = folder / NAME
    path.write_bytes("".join(f"{hashes[name]}  {name}\n" for name in names).encode())
    flush_file(path)


def _sha256(path: Path) -> str:
    if path.exists() and not path.is_file():  # a pipe would keep its reader waiting
        return "not a file"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
