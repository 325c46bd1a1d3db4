"""Numbers as few bytes, and back to the bit: whole arrays, and the difference between two bit patterns."""

from __future__ import annotations

import lzma
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb

import numpy as np
import torch
from torch import Tensor

RAW, ZLIB, LZMA, ZEROS, COUNTED = range(5)  # the first byte of a packed array
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0}]  # a byte tells nothing about the next
SLOW = 2**20  # bytes from which lzma takes too long for what it saves
NOISE = 0.95  # of its length: data that zlib leaves longer than that, lzma does not shorten either
LONG = 2**15  # bytes from which counting takes too long
ROW = 1024  # bytes that are counted together


class Damaged(ValueError):
    """Bytes that were not packed by this module."""


def packed(data: bytes) -> bytes:
    """The bytes in the shortest form."""
    if not any(data):
        return bytes([ZEROS])
    forms = [(RAW, data), (ZLIB, zlib.compress(data, 6))]
    if len(data) < LONG or (len(data) < SLOW and len(forms[-1][1]) < NOISE * len(data)):
        forms.append((LZMA, lzma.compress(data, lzma.FORMAT_RAW, filters=FILTERS)))
    if len(data) < LONG and len(set(data)) < 128:
        forms.append((COUNTED, _counted(data)))
    kind, shortest = min(forms, key=lambda form: len(form[1]))
    return bytes([kind]) + shortest


def unpacked(data: bytes, length: int) -> bytes:
    """`length` bytes, never more: what was packed by somebody else cannot fill the memory."""
    kind, rest = (data[0], data[1:]) if data else (-1, b"")
    try:
        if kind == ZEROS:
            plain = bytes(length) if not rest else b""
        elif kind == RAW:
            plain = rest
        elif kind == ZLIB:
            plain = zlib.decompressobj().decompress(rest, length + 1)
        elif kind == LZMA:
            plain = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=FILTERS).decompress(rest, length + 1)
        elif kind == COUNTED:
            plain = _recounted(rest, length)
        else:
            raise Damaged("an unknown form")
    except (zlib.error, lzma.LZMAError, EOFError) as e:
        raise Damaged(str(e)) from None
    if len(plain) != length:
        raise Damaged("the wrong length")
    return plain


def _counted(data: bytes) -> bytes:
    """Row by row: how often each value occurs, and the row's number among all rows with these counts (Cover 1973). No
    code that knows only the counts is shorter. The values that occur come first, once for all rows."""
    values = sorted(set(data), key=lambda b: (b + 128) % 256)
    coded = bytes([len(values), *values])
    for start in range(0, len(data), ROW):
        row = data[start : start + ROW]
        left = Counter(row)
        counts = [left[b] for b in values]
        number, ways, n = 0, _ways(counts), len(row)
        most = _length(ways)
        place = {b: i for i, b in enumerate(values)}
        for b in row:
            at = place[b]
            number += ways * sum(counts[:at]) // n
            ways = ways * counts[at] // n
            counts[at] -= 1
            n -= 1
        coded += b"".join(_short(left[b]) for b in values[:-1]) + number.to_bytes(most, "little")
    return coded


def _recounted(data: bytes, length: int) -> bytes:
    kinds = data[0] if data else 0
    values, at, plain = data[1 : 1 + kinds], 1 + kinds, bytearray()
    if not 0 < len(values) == kinds:
        raise Damaged("too short")
    while len(plain) < length:
        n = min(ROW, length - len(plain))
        counts = []
        for _ in range(kinds - 1):
            count, at = _read_short(data, at)
            counts.append(count)
        counts.append(n - sum(counts))
        if counts[-1] < 0:
            raise Damaged("the wrong length")
        ways = _ways(counts)
        most = _length(ways)
        number, at = int.from_bytes(data[at : at + most], "little"), at + most
        for left in range(n, 0, -1):
            which, below, wanted = 0, 0, number * left // ways
            while below + counts[which] <= wanted:
                below += counts[which]
                which += 1
                if which == kinds:
                    raise Damaged("an invalid number")
            number -= ways * below // left
            ways = ways * counts[which] // left
            counts[which] -= 1
            plain.append(values[which])
    return bytes(plain) if at == len(data) else b""


def _ways(counts: list[int]) -> int:
    """How many rows have these counts."""
    total, n = 1, 0
    for count in counts:
        n += count
        total *= comb(n, count)
    return total


def _length(ways: int) -> int:
    return ((ways - 1).bit_length() + 7) // 8


def _short(number: int) -> bytes:
    return bytes([number]) if number < 192 else bytes([192 + (number >> 8), number & 255])


def _read_short(data: bytes, at: int) -> tuple[int, int]:
    one = data[at : at + 2] + b"\0\0"
    return (one[0], at + 1) if one[0] < 192 else ((one[0] - 192 << 8) + one[1], at + 2)


def as_gaps(positions: Sequence[int]) -> tuple[int, bytes]:
    """Rising whole numbers, as the gaps between them (Rice 1979): the last digits of each gap as they are, the rest as
    that many ones and a zero. Returns how many digits, and the bytes. For numbers drawn at random, few codes are
    shorter by more than a twentieth."""
    gaps = np.diff(np.array([-1, *positions], dtype=np.int64)) - 1
    digits = min(range(63), key=lambda n: int((gaps >> n).sum()) + n * len(gaps))
    ends = np.cumsum((gaps >> digits) + 1) - 1
    above = np.ones(int(ends[-1]) + 1 if len(gaps) else 0, dtype=np.uint8)
    above[ends] = 0
    last = gaps[:, None] >> np.arange(digits) & 1
    return digits, np.packbits(np.concatenate([above, last.reshape(-1).astype(np.uint8)])).tobytes()


def from_gaps(count: int, digits: int, data: bytes) -> list[int]:
    """The numbers that `as_gaps` coded."""
    binary = np.unpackbits(np.frombuffer(data, np.uint8))
    ends = np.flatnonzero(binary == 0)[:count]
    start = int(ends[-1]) + 1 if count else 0
    last = binary[start : start + count * digits]
    if len(ends) != count or len(last) != count * digits or not 0 <= digits < 63:
        raise Damaged("invalid positions")
    above = np.diff(np.array([-1, *ends])) - 1
    gaps = (above << digits) + last.reshape(count, digits).astype(np.int64) @ (1 << np.arange(digits))
    return (np.cumsum(gaps + 1) - 1).tolist()


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
    """The difference of two bit patterns, packed byte by byte of each number: close numbers share high bytes."""
    far = (end - start).astype(start.dtype)  # wraps around, and so does the way back
    whole = far.view(far.dtype.str.replace("u", "i"))
    short = ((whole << 1) ^ (whole >> (8 * whole.itemsize - 1))).view(np.uint8).reshape(len(whole), whole.itemsize)
    planes = [packed(np.ascontiguousarray(plane).tobytes()) for plane in short.T]
    return b"".join(len(plane).to_bytes(8, "little") + plane for plane in planes) if far.any() else b""


def along(start: np.ndarray, way: bytes, back: bool = False) -> np.ndarray:
    """A bit pattern plus a difference, or with `back` minus it."""
    if not way:
        return start
    size = start.dtype.itemsize
    planes = list(_planes(way, len(start)))
    if len(planes) != size:
        raise Damaged("the wrong dtype")
    short = np.ascontiguousarray(np.stack(planes, axis=1)).view(start.dtype).reshape(-1)
    far = (short >> np.array(1, start.dtype)) ^ (-(short & np.array(1, start.dtype)).astype(start.dtype))
    return (start - far if back else start + far).astype(start.dtype)


def _planes(way: bytes, length: int) -> Iterator[np.ndarray]:
    at = 0
    while at < len(way):
        size = int.from_bytes(way[at : at + 8], "little")
        yield np.frombuffer(unpacked(way[at + 8 : at + 8 + size], length), np.uint8)
        at += 8 + size
