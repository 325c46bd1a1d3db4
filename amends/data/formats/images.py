"""A folder of images, with one folder per class: cats/a.png, cats/2019/b.jpg, dogs/c.png."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from amends.data.formats.raw import IMAGE, Asked, Raw, split_of
from amends.errors import BadInput, nearest

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
SPLITS = ("train", "test", "val", "valid", "validation", "dev", "eval")


def images(folder: Path, asked: Asked) -> Raw:
    """Classes are the names of the folders, sorted or as given; examples are in the order of class, then path,
    both sorted as text. Files in folders below a class belong to it; hidden files and files without an
    image's suffix are skipped. A folder without images is skipped if the classes are named."""
    asked.refuse(folder, "label", "image", "text", "features", "id")
    if not folder.is_dir():
        raise BadInput(f"this is not a folder; {folder}; give the folder that holds a folder for each class")
    below = _folders(folder)
    if asked.split is not None or (below and all(name in SPLITS for name in below)):
        folder = folder / split_of(asked.split, below, folder)
        below = _folders(folder)
    inside = _by_class(folder, below, asked.classes)
    classes = asked.classes or tuple(inside)
    files = [p for images in inside.values() for p in images]
    labels = [classes.index(name) for name, images in inside.items() for _ in images]
    paths = np.array([p.relative_to(folder).as_posix() for p in files], dtype=object)
    return Raw(
        IMAGE, files, np.array(labels), str(folder), {"path": paths}, tuple(classes), call=lambda i: str(files[i])
    )


def _by_class(folder: Path, below: list[str], classes: tuple[str, ...]) -> dict[str, list[Path]]:
    """The images of each class that has any."""
    if not below:
        raise BadInput(
            f"there is no folder for any class; {folder}; put the images of each class into a folder with its name"
        )
    inside = {name: files for name in below if (files := _images(folder / name))}
    if not inside:
        raise BadInput(f"there are no images; {folder}; give files that end in {', '.join(SUFFIXES)}")
    if not classes and len(inside) < len(below):  # a class without examples, or not a class at all
        empty = next(name for name in below if name not in inside)
        raise BadInput(f"the folder {empty} holds no images; {folder}; remove it, or name the classes")
    for name in inside:
        if classes and name not in classes:
            raise BadInput(f"the folder {name} is not a class; {folder}; {nearest(name, classes)}")
    return inside


def _folders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))


def _images(folder: Path) -> list[Path]:
    inside = (p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    return sorted(p for p in inside if not any(part.startswith(".") for part in p.relative_to(folder).parts))
