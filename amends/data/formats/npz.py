"""Arrays in one .npz file: x and y, images and labels, or keys that the caller names."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from amends.data.formats.pictures import channels_first
from amends.data.formats.raw import IMAGE, ROW, TEXT, Asked, Raw
from amends.data.inputs import native
from amends.data.views import LABELS
from amends.errors import BadInput, first_line, nearest

NPY = b"\x93NUMPY"
DEFLATED = 1100  # bytes that one byte of a deflated file can become at most, and some more
INPUTS = ("x", "X", "images", "image", "data", "inputs", "features", "text")


def npz(path: Path, asked: Asked) -> Raw:
    """With a split, the keys are those that end in it: x_train, y_train. Bytes in three or four axes are
    images; other numbers are used as they are. Other arrays [N] are the user's own columns."""
    if not isinstance(asked.features, str | None):
        raise BadInput(f"features holds {len(asked.features)} names; {path}; give the one key that holds the inputs")
    arrays = _arrays(path)
    end = "" if asked.split is None else f"_{asked.split}"
    inputs = _key(asked.image or asked.text or asked.features, INPUTS, end, arrays, path, "inputs")
    named = asked.label
    label = named[0] if isinstance(named, Sequence) and not isinstance(named, str) and len(named) == 1 else named
    labels = None if asked.target == "tokens" else arrays[_key(label, ("y", "Y", *LABELS), end, arrays, path, "label")]
    x = arrays[inputs]
    if labels is not None and len(labels) != len(x):
        raise BadInput(f"{len(x)} inputs but {len(labels)} labels; {path}; give one label per input")
    columns = {
        k.removesuffix(end): v for k, v in arrays.items()
        if k.endswith(end) and v.ndim == 1 and len(v) == len(x) and v is not x and v is not labels
    }  # fmt: skip
    if asked.id is not None:
        columns["id"] = arrays[_key(asked.id, (), end, arrays, path, "id")]
    kind, values = _of_kind(x, bool(asked.image), f"{path}, {inputs}")
    return Raw(kind, values, labels, str(path), columns, asked.classes)


def _of_kind(x: np.ndarray, image: bool, where: str) -> tuple[str, Any]:
    """The kind of the inputs, and the inputs."""
    if x.dtype.kind in "US":
        return TEXT, x.astype(str).tolist()
    if x.dtype.kind not in "biuf":
        raise BadInput(f"the array holds {x.dtype}; {where}; give numbers or text")
    if image or (x.dtype == np.uint8 and x.ndim > 2):
        return IMAGE, channels_first(x, where)
    return ROW, x


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as opened:
            if opened.read(len(NPY)) == NPY:
                what = "this is one array (.npy), not several under their names"
                raise BadInput(f"{what}; {path}; save inputs and labels with numpy.savez")
            _refuse_lies(opened, path)
            opened.seek(0)
            with np.load(opened, allow_pickle=False) as file:
                return {k: native(np.atleast_1d(file[k])) for k in file.files}
    except BadInput:
        raise
    except (ValueError, OSError, EOFError, AttributeError, TypeError, KeyError, NotImplementedError, RuntimeError,
            zipfile.BadZipFile, zlib.error) as e:  # fmt: skip
        raise BadInput(f"the arrays cannot be read ({first_line(e)}); {path}; save numbers with numpy.savez") from e


def _refuse_lies(opened: Any, path: Path) -> None:
    """BadInput for an array that says it is larger than what is there, before memory is taken for it."""
    with zipfile.ZipFile(opened) as archive:
        for part in archive.infolist():
            with archive.open(part) as member:
                if member.read(len(NPY)) != NPY:
                    continue
                major, _ = member.read(2)
                read = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
                shape, _, kind = read(member)
                most = DEFLATED * part.compress_size if part.compress_type == zipfile.ZIP_DEFLATED else part.file_size
                says, holds = math.prod(shape) * kind.itemsize, min(part.file_size, most)
                if not kind.hasobject and says > holds:
                    what = f"array {part.filename} says it has {says:,} bytes, and {holds:,} are there"
                    raise BadInput(f"{what}; {path}; the file is damaged, save it again with numpy.savez")


def _key(
    given: str | Sequence[str] | None, usual: tuple[str, ...], end: str, arrays: dict, path: Path, what: str
) -> str:
    if given is not None:
        if not isinstance(given, str):
            raise BadInput(f"{what} is {given!r}; {path}; name one array")
        key = next((k for k in (given + end, given) if k in arrays), None)
        if key is None:
            raise BadInput(f"there is no array {given!r}; {path}; {nearest(given, arrays)}")
        return key
    key = next((k + end for k in usual if k + end in arrays), None)
    if key is None:
        name = "features" if what == "inputs" else what
        raise BadInput(
            f"no array of {what} among {', '.join(arrays) or 'none'}; {path}; name its key with {name}, or give split"
        )
    return key
