"""Numbers as few bytes, and back to the bit: whole arrays, and the difference between two bit patterns."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

RAW, ZLIB, LZMA, ZEROS = range(4)  # the first byte of a packed array
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0}]  # what stands before a byte says nothing
SLOW = 2**23  # bytes from which lzma takes too long for what it saves


class Damaged(ValueError):
    """Bytes that are not what was packed."""


def packed(data: bytes) -> bytes:
    """In the shortest of the forms there are."""
    if not any(data):
        return bytes([ZEROS])
    forms = [(RAW, data), (ZLIB, zlib.compress(data, 6))]
    if len(data) < SLOW:
        forms.append((LZMA, lzma.compress(data, lzma.FORMAT_RAW, filters=FILTERS)))
    kind, shortest = min(forms, key=lambda form: len(form[1]))
    return bytes([kind]) + shortest


def unpacked(data: bytes, length: int) -> bytes:
    """`length` bytes, never more: what was packed by somebody else cannot fill the memory."""
    kind, rest = (data[0], data[1:]) if data else (-1, b"")
    try:
        if kind == ZEROS:
            found = bytes(length) if not rest else b""
        elif kind == RAW:
            found = rest
        elif kind == ZLIB:
            found = zlib.decompressobj().decompress(rest, length + 1)
        elif kind == LZMA:
            found = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=FILTERS).decompress(rest, length + 1)
        else:
            raise Damaged("no such form")
    except (zlib.error, lzma.LZMAError, EOFError) as e:
        raise Damaged(str(e)) from None
    if len(found) != length:
        raise Damaged("of another length")
    return found


def bits(t: Tensor) -> np.ndarray:
    """The bit patterns of a tensor, as whole numbers in one row; numbers of more than 8 bytes are two."""
    flat = t.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().view(f"u{min(8, t.element_size())}")


def from_bits(pattern: np.ndarray, like: Tensor) -> Tensor:
    """The tensor that has these bit patterns, with the dtype and shape of another."""
    if not len(pattern):
        return torch.empty_like(like, device="cpu")
    return torch.from_numpy(pattern.view(np.uint8).copy()).view(like.dtype).reshape(like.shape)


def difference(start: np.ndarray, end: np.ndarray) -> bytes:
    """What leads from one bit pattern to another, packed byte by byte of a number: numbers that lie close have equal
    high bytes."""
    far = (end - start).astype(start.dtype)  # wraps around, and so does the way back
    whole = far.view(far.dtype.str.replace("u", "i"))
    short = ((whole << 1) ^ (whole >> (8 * whole.itemsize - 1))).view(np.uint8).reshape(len(whole), whole.itemsize)
    planes = [packed(np.ascontiguousarray(plane).tobytes()) for plane in short.T]
    return b"".join(len(plane).to_bytes(8, "little") + plane for plane in planes) if far.any() else b""


def along(start: np.ndarray, way: bytes, back: bool = False) -> np.ndarray:
    """Where a difference leads to from a bit pattern, or where it came from."""
    if not way:
        return start
    size = start.dtype.itemsize
    planes = list(_planes(way, len(start)))
    if len(planes) != size:
        raise Damaged("of another dtype")
    short = np.ascontiguousarray(np.stack(planes, axis=1)).view(start.dtype).reshape(-1)
    far = (short >> np.array(1, start.dtype)) ^ (-(short & np.array(1, start.dtype)).astype(start.dtype))
    return (start - far if back else start + far).astype(start.dtype)


def _planes(way: bytes, length: int) -> Iterator[np.ndarray]:
    at = 0
    while at < len(way):
        size = int.from_bytes(way[at : at + 8], "little")
        yield np.frombuffer(unpacked(way[at + 8 : at + 8 + size], length), np.uint8)
        at += 8 + size
