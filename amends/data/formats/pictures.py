"""Images as a model sees them: numbers from 0 to 1, [channels, height, width]."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as nnf

from amends.data.formats.raw import Raw
from amends.errors import BadInput, first_line, kind_of

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # others may start a program, as Ghostscript for EPS
DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images of a set, each decoded when it is read. Files are read as RGB unless `gray`."""

    raw: Raw
    size: tuple[int, int] | None
    gray: bool

    def __len__(self) -> int:
        return len(self.raw.inputs)

    def __getitem__(self, i: int) -> Tensor:
        given = self.raw.inputs[i]
        array = given if isinstance(given, np.ndarray) else decoded(given, self.gray, self.raw.at(i))
        return self._floats(array[None])[0]

    def file(self, i: int) -> Any:
        """Example i as Pillow has it, for a transform; None where it is not in a file of its own."""
        given = self.raw.inputs[i]
        if isinstance(given, np.ndarray):
            return None
        image = opened(given, self.gray, self.raw.at(i))
        if self.size is None or image.size == self.size[::-1]:
            return image
        from PIL import Image

        return image.resize(self.size[::-1], Image.Resampling.BILINEAR)

    @property
    def together(self) -> bool:
        """Whether they are in one array, and need not be read one by one."""
        return isinstance(self.raw.inputs, np.ndarray)

    def block(self, start: int, stop: int) -> Tensor:
        """Several of them at once, if they are in one array."""
        return self._floats(np.asarray(self.raw.inputs[start:stop]))

    def _floats(self, array: np.ndarray) -> Tensor:
        """[N, C, H, W] as the model sees it."""
        if self.gray and array.shape[1] == 3:
            array = _gray(array)
        pictures = torch.tensor(array)
        pictures = pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures.to(torch.get_default_dtype())
        if self.size is not None and tuple(pictures.shape[2:]) != self.size:
            pictures = nnf.interpolate(pictures, self.size, mode="bilinear", antialias=True).clamp(0, 1)
        return pictures


def _gray(array: np.ndarray) -> np.ndarray:
    """Luma of ITU-R 601; bytes are rounded exactly as in Pillow."""
    if array.dtype == np.uint8:
        r, g, b = (array[:, c].astype(np.int32) for c in range(3))
        return ((19595 * r + 38470 * g + 7471 * b + 32768) >> 16).astype(np.uint8)[:, None]
    return np.einsum("c,nchw->nhw", np.array([0.299, 0.587, 0.114], dtype=array.dtype), array)[:, None]


def decoded(given: Any, gray: bool, where: str) -> np.ndarray:
    """Bytes of an image file, or the file itself, as uint8 [C, H, W]."""
    array = np.asarray(opened(given, gray, where))
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def opened(given: Any, gray: bool, where: str) -> Any:
    """The same as a Pillow image, in RGB or in gray."""
    try:
        from PIL import Image
    except ImportError as e:
        raise BadInput(f"images cannot be read without Pillow; {where}; run: pip install 'amends[images]'") from e
    if not isinstance(given, bytes | Path):
        raise BadInput(f"expected an image, got {kind_of(given)}; {where}; give a path or the bytes of a file")
    if isinstance(given, Path) and not given.is_file():
        raise BadInput(f"there is no such image file; {where}; give paths relative to the file that lists them")
    try:
        with Image.open(io.BytesIO(given) if isinstance(given, bytes) else given, formats=FORMATS) as image:
            if image.mode in DEEP:
                raise BadInput(f"the image has more than 8 bits per channel; {where}; convert it to 8 bits first")
            return image.convert("L" if gray else "RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as e:
        if isinstance(e, BadInput):
            raise
        raise BadInput(f"the image cannot be read ({first_line(e)}); {where}; replace it or leave it out") from e


def channels_first(array: np.ndarray, where: str) -> np.ndarray:
    """[N, H, W], [N, H, W, C] or [N, C, H, W] as [N, C, H, W]."""
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 4 and array.shape[1] not in (1, 3) and array.shape[3] in (1, 3):
        return array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.shape[1] not in (1, 3):
        raise BadInput(
            f"the images have shape {list(array.shape)}; {where}; give [N, H, W] or [N, 1 or 3 channels, H, W]"
        )
    return array
