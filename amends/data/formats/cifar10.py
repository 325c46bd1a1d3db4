"""CIFAR-10 as its authors publish it: binary or python batches, in a folder or in the .tar.gz."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from amends.data.formats import pickles
from amends.data.formats.raw import IMAGE, Asked, Raw, split_of
from amends.errors import BadInput, first_line, nearest

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
STEMS = [stem for stems in BATCHES.values() for stem in stems]
PIXELS = 3 * 32 * 32

Files = dict[str, Callable[[], bytes]]


def cifar10(path: Path, asked: Asked) -> Raw:
    """The batches of a split that exist, in their order; a single file is read as one batch."""
    asked.refuse(path, "label", "image", "text", "features", "id")
    if path.is_dir():
        files = _in_folder(path)
    elif path.name.endswith((".tar.gz", ".tgz", ".tar")):
        files = _in_archive(path)
    else:
        asked.refuse(path, "split")
        return _raw([path.name], {path.name: path.read_bytes}, path, asked)
    there = [s for s, stems in BATCHES.items() if any(Path(name).stem in stems for name in files)]
    if not there:
        raise BadInput(f"there is no batch of CIFAR-10; {path}; give files such as data_batch_1 or data_batch_1.bin")
    stems = BATCHES[split_of(asked.split, there, path)]
    return _raw(sorted((n for n in files if Path(n).stem in stems), key=lambda n: Path(n).stem), files, path, asked)


def _in_folder(path: Path) -> Files:
    for inner in (path, path / "cifar-10-batches-py", path / "cifar-10-batches-bin"):
        files: Files = {p.name: p.read_bytes for p in sorted(inner.glob("*_batch*")) if p.stem in STEMS}
        if files:
            return files
    return {}


def _in_archive(path: Path) -> Files:
    """Nothing is unpacked to disk: members named like a batch are read into memory."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = Path(member.name)
                inside = archive.extractfile(member) if member.isfile() and name.stem in STEMS else None
                if inside is not None:
                    contents[name.name] = inside.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as e:
        raise BadInput(f"the archive cannot be read ({first_line(e)}); {path}; download it again") from e
    return {name: (lambda data=data: data) for name, data in contents.items()}


def _raw(names: list[str], files: Files, path: Path, asked: Asked) -> Raw:
    parts = [_batch(files[name](), name, path) for name in names]
    pixels, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    classes = asked.classes or CLASSES
    for name in classes:
        if name not in CLASSES:
            raise BadInput(f"CIFAR-10 has no class {name!r}; {path}; {nearest(name, CLASSES)}")
    place = np.array([classes.index(name) if name in classes else -1 for name in CLASSES])
    bad = np.flatnonzero(place[labels] < 0)
    if len(bad):
        raise BadInput(
            f"the example is of class {CLASSES[labels[bad[0]]]}; {path}[{bad[0]}]; name this class in classes too"
        )
    return Raw(IMAGE, pixels.reshape(-1, 3, 32, 32), place[labels], str(path), classes=tuple(classes))


def _batch(data: bytes, name: str, path: Path) -> tuple[np.ndarray, np.ndarray]:
    where = str(path) if path.name == name else f"{path}, {name}"
    pixels, labels = _binary(data, where) if name.endswith(".bin") else _python(data, where)
    if not len(pixels):
        raise BadInput(f"the batch has no examples; {where}; download it again")
    outside = np.flatnonzero((labels < 0) | (labels > 9))
    if len(outside):
        raise BadInput(f"label {labels[outside[0]]}, expected 0 to 9; {where}, example {outside[0]}; download it again")
    return pixels, labels


def _binary(data: bytes, where: str) -> tuple[np.ndarray, np.ndarray]:
    if len(data) % (PIXELS + 1):
        raise BadInput(f"the size, {len(data)} bytes, is not a multiple of {PIXELS + 1}; {where}; download it again")
    table = np.frombuffer(data, np.uint8).reshape(-1, PIXELS + 1)
    return table[:, 1:], table[:, 0].astype(np.int64)


def _python(data: bytes, where: str) -> tuple[np.ndarray, np.ndarray]:
    batch = pickles.batch(data, where)
    for name in ("data", "labels"):
        if name not in batch:
            raise BadInput(f"the batch has no {name}; {where}; {nearest(name, batch)}")
    try:
        pixels, labels = np.asarray(batch["data"]), np.asarray(batch["labels"], dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as e:
        raise BadInput(f"the batch does not hold numbers ({first_line(e)}); {where}; download it again") from e
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != PIXELS or labels.shape != (len(pixels),):
        raise BadInput(
            f"images are {pixels.dtype} {list(pixels.shape)} and labels {list(labels.shape)}, expected uint8 "
            f"[n, {PIXELS}] and [n]; {where}; download it again"
        )
    return pixels, labels
