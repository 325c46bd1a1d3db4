"""Where an export goes: beside the run by default; written whole or not at all, and never over a file."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from amends.errors import BadInput, first_line
from amends.runs.disk import write_file, write_folder
from amends.runs.run import Run


class Exported(NamedTuple):
    """What was written: its kind, where it is, how many examples (or logged values) it holds, and what to do with
    it where that is not obvious."""

    to: str
    path: Path
    n: int
    then: str = ""


ENDINGS = {
    "csv": "-cleaned.csv", "huggingface": "-huggingface", "images": "-images", "label-studio": "-label-studio.json",
    "fiftyone": "-fiftyone", "cleanlab": "-cleanlab.csv", "lora": "-lora", "wandb": "-wandb",
    "tensorboard": "-tensorboard",
}  # fmt: skip


def library(module: str, to: str) -> Any:
    """Another tool's library, imported only when an export asks for it."""
    try:
        return import_module(module)
    except ImportError as e:
        raise BadInput(f"a library is missing ({first_line(e)}); export to {to}; pip install 'amends[{to}]'") from e


def as_run(run: Any) -> Run:
    return run if isinstance(run, Run) else Run.sound(Path(run))


def place(run: Run, to: str, out: Any) -> Path:
    """The target, checked before anything is read: it is free, and outside the run."""
    folder = run.folder if run.folder.name not in ("", "..") else run.folder.resolve()
    target = folder.parent / (folder.name + ENDINGS[to]) if out is None else Path(out)
    outside(run, target)
    if target.exists():
        raise BadInput(f"the target exists; {target}; choose another with -o, or remove it first")
    return target


def outside(run: Run, target: Path) -> None:
    if target.resolve().is_relative_to(run.folder.resolve()):
        raise BadInput(f"the target is inside the run, which an export leaves as it is; {target}; choose another place")


__all__ = ["Exported", "as_run", "library", "outside", "place", "write_file", "write_folder"]
