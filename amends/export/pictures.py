"""Cleaned data as a folder of images, one folder per class."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from amends.data.formats.raw import IMAGE
from amends.errors import BadInput
from amends.export.files import Exported, as_run, place, write_folder
from amends.export.kept import Kept
from amends.export.source import Source, source
from amends.tables.looks import pixels, png

STARTS = {b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"GIF8": ".gif", b"RIFF": ".webp", b"BM": ".bmp"}
UNSAFE = re.compile(r'[/\\:*?"<>|\x00-\x1f]')


def to_images(run: Any, out: Any = None, data: Any = None) -> Exported:
    """The kept examples as class/file, the layout that `amends` and most tools read.

    Image files are copied byte for byte under their own names; arrays become PNG, named by id, or by
    position in train where there is none. Of two that would have the same name, the later gets its
    position after it.
    """
    run = as_run(run)
    target = place(run, "images", out)
    kept = Kept.of(run)
    train = source(run, data)
    train.needs(IMAGE, "an image folder", "export to csv or huggingface instead")
    y = kept.targets(train.records)
    if y.ndim != 1 or y.is_floating_point():
        raise BadInput(f"an image folder needs one class per image; {train.where}; export to csv or huggingface")
    folders = _folders(train)
    write_folder(target, lambda folder: _fill(folder, train, kept, [folders[int(k)] for k in y]))
    return Exported("images", target, len(kept.at))


def _folders(train: Source) -> dict[int, str]:
    classes = train.records.classes
    names = {k: safe(classes[k] if k < len(classes) else str(k)) for k in train.records.y.unique().tolist()}
    names |= {k: safe(name) for k, name in enumerate(classes)}
    if len(set(map(str.lower, names.values()))) < len(names):
        raise BadInput(f"two classes would share a folder ({', '.join(names.values())}); {train.where}; rename one")
    return names


def _fill(folder: Path, train: Source, kept: Kept, folders: list[str]) -> None:
    taken: set[str] = set()
    for i in kept.at.tolist():
        content, suffix = file_of(train, i)
        inside = PurePosixPath(folders[i]) / name_of(train, i, suffix)
        while str(inside).lower() in taken:
            inside = inside.with_name(f"{inside.stem}-{i}{inside.suffix}")
        taken.add(str(inside).lower())
        path = folder / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def name_of(train: Source, i: int, suffix: str) -> PurePosixPath:
    """The name of example i below its class: its id, its file's own name and folders, or its position."""
    known = train.id(i)
    if known is not None:
        name = safe(known)
        return PurePosixPath(name if name.lower().endswith(suffix.lower()) else name + suffix)
    given = train.inputs[i]
    if not isinstance(given, Path):
        return PurePosixPath(f"{i}{suffix}")
    if train.folder is not None and given.is_relative_to(train.folder):
        below = given.relative_to(train.folder).parts
        return PurePosixPath(*map(safe, below[1:] or below))
    return PurePosixPath(safe(given.name))


def file_of(train: Source, i: int) -> tuple[bytes, str]:
    """Image i as the bytes of a file, and how its name ends."""
    given = train.inputs[i]
    if isinstance(given, Path):
        return given.read_bytes(), given.suffix
    if isinstance(given, bytes):
        return given, next((end for start, end in STARTS.items() if given.startswith(start)), ".png")
    return png(pixels(train.image(i))), ".png"


def safe(name: str) -> str:
    """A name that any system takes for one file or folder, never hidden and never somewhere else."""
    return re.sub(r"^\.+", "_", UNSAFE.sub("_", name).strip()) or "_"
