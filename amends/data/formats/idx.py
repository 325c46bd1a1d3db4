"""IDX, the format of MNIST and similar sets, gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np

from amends.data.formats.raw import IMAGE, Asked, Raw, split_of
from amends.errors import BadInput, first_line

PREFIX = {"train": "train", "test": "t10k"}


def names(prefix: str, what: str) -> list[str]:
    end = "idx3-ubyte" if what == "images" else "idx1-ubyte"
    return [f"{prefix}-{what}{dot}{end}{gz}" for dot in "-." for gz in ("", ".gz")]


def idx(path: Path, asked: Asked) -> Raw:
    """A file of images with its labels beside it, or a folder with the standard names and a split."""
    asked.refuse(path, "label", "image", "text", "features", "id")
    if path.is_dir():
        there = [s for s, prefix in PREFIX.items() if any((path / n).exists() for n in names(prefix, "images"))]
        if not there:
            raise BadInput(f"there is no IDX file of images; {path}; give a file such as {names('train', 'images')[0]}")
        prefix = PREFIX[split_of(asked.split, there, path)]
        path = next(path / n for n in names(prefix, "images") if (path / n).exists())
    else:
        asked.refuse(path, "split")
    pixels = array(path, 3)
    beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    other = beside.with_suffix("") if beside.suffix == ".gz" else beside.with_name(beside.name + ".gz")
    labels = next((p for p in (beside, other) if p != path and p.exists()), None)
    if labels is None:
        raise BadInput(f"there is no file of labels beside the images; {path}; add {beside.name}")
    y = array(labels, 1)
    if len(y) != len(pixels):
        raise BadInput(f"{len(pixels)} images but {len(y)} labels; {labels}; give the labels of these images")
    return Raw(IMAGE, pixels[:, None], y.astype(np.int64), str(path), classes=asked.classes)


def array(path: Path, axes: int) -> np.ndarray:
    """The bytes of one file, in the shape that its header states."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as e:
        raise BadInput(f"the file cannot be read ({first_line(e)}); {path}; download it again") from e
    if len(data) < 4 or data[:3] != b"\x00\x00\x08" or data[3] != axes:
        raise BadInput(
            f"the file starts with {data[:4].hex() or 'nothing'}, expected 000008{axes:02x}; {path}; "
            f"give an IDX file of bytes with {axes} ax{'e' if axes > 1 else 'i'}s"
        )
    head = 4 + 4 * axes
    shape = [int.from_bytes(data[at : at + 4], "big") for at in range(4, head, 4)]
    wanted = int(np.prod(shape, dtype=object))
    if len(data) < head or len(data) - head != wanted:
        raise BadInput(
            f"the file has {max(len(data) - head, 0)} bytes, but its header says {wanted}; {path}; download it again"
        )
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)
