"""One short file per format: a path comes in, Raw goes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from amends.config.keys import TARGETS
from amends.data.formats.cifar10 import STEMS, cifar10
from amends.data.formats.huggingface import huggingface
from amends.data.formats.idx import idx
from amends.data.formats.images import images
from amends.data.formats.jsonl import jsonl
from amends.data.formats.npz import npz
from amends.data.formats.raw import Asked, Raw
from amends.data.formats.tables import csv, parquet
from amends.errors import BadInput, first_line, nearest

FORMATS: dict[str, Callable[[Path, Asked], Raw]] = {
    "images": images, "csv": csv, "parquet": parquet, "jsonl": jsonl, "npz": npz, "idx": idx,
    "cifar10": cifar10, "huggingface": huggingface,
}  # fmt: skip
ENDINGS = {
    ".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".tsv.gz": "csv", ".parquet": "parquet", ".npz": "npz",
    ".jsonl": "jsonl", ".jsonl.gz": "jsonl",
    "ubyte": "idx", "ubyte.gz": "idx", ".tar.gz": "cifar10", ".tgz": "cifar10", ".bin": "cifar10",
}  # fmt: skip


def guess(path: Path) -> str:
    """The format of a file by its name, of a folder by what it holds."""
    if not path.exists():
        around = path.parent.iterdir() if path.parent.is_dir() else ()
        raise BadInput(f"no such file or folder; {path}; {nearest(path.name, [p.name for p in around])}")
    if path.is_dir():
        return _of_folder(path)
    name = next((name for end, name in ENDINGS.items() if path.name.lower().endswith(end)), None)
    name = name or ("cifar10" if path.name in STEMS else None)
    if name is None:
        raise BadInput(f"the format of this file is not known; {path}; give format, one of {', '.join(FORMATS)}")
    return name


def _of_folder(path: Path) -> str:
    names = {p.name for p in path.iterdir() if not p.name.startswith(".")}
    if names & {"dataset_dict.json", "state.json"}:
        return "huggingface"
    if any(Path(n).stem in STEMS for n in names) or names & {"cifar-10-batches-py", "cifar-10-batches-bin"}:
        return "cifar10"
    kinds = {name for n in names for end, name in ENDINGS.items() if n.endswith(end) and (path / n).is_file()}
    if "idx" in kinds:
        return "idx"
    if "csv" in kinds:
        return "csv"
    if "parquet" in kinds or any(True for _ in path.rglob("*.parquet")):
        return "huggingface"
    if any((path / n).is_dir() for n in names):
        return "images"
    raise BadInput(f"the format of this folder is not known; {path}; give format, one of {', '.join(FORMATS)}")


def raw(path: Path, format: str | None, asked: Asked) -> Raw:
    """The examples of a file or folder as they are stored; at least one."""
    if asked.target not in TARGETS:
        raise BadInput(f"target is {asked.target!r}; {path}; {nearest(asked.target, TARGETS)}")
    if len(set(asked.classes)) < len(asked.classes):
        raise BadInput(f"classes names a class twice; {path}; name each class once")
    try:
        path.stat()
    except FileNotFoundError:
        pass  # a name close to it is suggested below
    except (OSError, ValueError) as e:
        raise BadInput(f"the path cannot be used ({first_line(e)}); {path}; check the path") from e
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise BadInput(f"this is not a file but a pipe or a device; {path}; give a file")
    name = guess(path) if format is None or not path.exists() else format
    if name not in FORMATS:
        raise BadInput(f"there is no format {name!r}; {path}; {nearest(name, FORMATS)}")
    examples = FORMATS[name](path, asked)
    if not len(examples.inputs):
        raise BadInput(f"there are no examples; {examples.where}; give at least one")
    return examples
