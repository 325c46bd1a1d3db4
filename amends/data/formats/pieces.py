"""A table that is larger than memory: read as many small ones, one after the other, while its inputs go to a file.

What the columns are is told by the first piece, and every piece is checked as a table of its own. Labels and the
user's own columns are kept as they are of a small table.
"""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from amends.data.formats.columns import Table, at_row, breaks_in, inputs_in, labels_in, raw
from amends.data.formats.raw import ROW, Asked, Raw
from amends.distributed.machine import once_a_machine
from amends.errors import BadInput, DiskError

WHOLE = 2**26  # bytes of a table that is read as a whole; a larger one
PIECE = 2**25  # is read in pieces of so many
Pieces = Callable[[], Iterator[Table]]  # from the first row on, each time it is called


def rows_of(rows: int, size: int, total: int) -> int | None:
    """How many rows a piece has, where so many rows have `size` bytes, of `total`; None where there is one piece."""
    return None if total <= WHOLE else max(1, rows * PIECE // max(size, 1))


def in_pieces(
    pieces: Pieces, path: Path, asked: Asked, features: Mapping[str, Any] | None = None, *, several: bool
) -> Raw:
    """As `raw` of the whole table, which is one piece or `several`. One piece is in memory at a time."""
    if not several:
        return raw(next(pieces(), {}), path, asked, features)
    gathered = once_a_machine(lambda: _gathered(pieces, path, asked, features))
    return gathered.together(lambda i: _place(pieces, path, i))


def _gathered(pieces: Pieces, path: Path, asked: Asked, features: Mapping[str, Any] | None) -> Gathered:
    tables = pieces()
    table = next(tables, {})
    part = raw(table, path, asked, features)
    named = _named(table, path, asked)
    del table
    gathered = Gathered.like(part, asked)
    gathered.label = named.label[0] if named.label and len(named.label) == 1 else None
    for table in tables:
        gathered.add(part)

        def at(i: int, start: int = gathered.rows) -> str:
            return _place(pieces, path, start + i)

        part = raw(table, path, named, features, at)
        del table
    gathered.add(part)
    return gathered


def _named(first: Table, path: Path, asked: Asked) -> Asked:
    """With the columns named that the first piece has for labels and inputs."""
    if asked.target == "response":
        return asked
    labels = labels_in(first, path, asked)
    used, kind = inputs_in(first, path, asked, [c for c in first if c not in labels], str)
    named: dict[str, Any] = {"features": used} if kind == ROW else {kind: used[0]}
    return replace(asked, label=labels or None, **named)


def _place(pieces: Pieces, path: Path, row: int) -> str:
    """A row of the whole table, for an error, which is worth reading it again up to there."""
    before, breaks = 0, 0
    for table in pieces():
        here = min(row - before, len(next(iter(table.values()))))
        before, breaks = before + here, breaks + breaks_in(table, here)
        if before == row:
            break
    return at_row(path, row, breaks)


class Mixed(Exception):
    """Columns that are numbers in one piece and words in another: they are words everywhere."""

    def __init__(self, columns: list[str]) -> None:
        super().__init__(", ".join(columns))
        self.columns = columns


@dataclass
class Gathered:
    """The pieces as they come."""

    inputs: Spool | Cells
    label: str | None = None  # the column of labels, where it is one
    rows: int = 0
    parts: list[Raw] = field(default_factory=list)

    @classmethod
    def like(cls, first: Raw, asked: Asked) -> Gathered:
        usual = torch.zeros(0, dtype=torch.get_default_dtype()).numpy().dtype
        return cls(Spool(np.dtype(np.float64) if asked.scaled else usual) if first.kind == ROW else Cells())

    def add(self, part: Raw) -> None:
        if part.kind == ROW:
            bad = np.flatnonzero(~np.isfinite(part.inputs).reshape(len(part.inputs), -1).all(1))
            if len(bad):
                raise BadInput(f"the row holds NaN or infinity; {part.at(int(bad[0]))}; drop it or fill it in")
        try:
            self.inputs.add(part.inputs)
        except OSError as e:
            raise DiskError(
                f"the inputs of a large table do not fit into a temporary file ({e.strerror or e}); "
                f"{tempfile.gettempdir()}; make room, or name another folder with TMPDIR"
            ) from e
        self.rows += len(part.inputs)
        columns = {
            name: values.copy() for name, values in part.columns.items()
        }  # of a view all of the piece would stay
        labels = None if part.labels is None else part.labels.copy()
        self.parts.append(replace(part, inputs=(), labels=labels, columns=columns, call=None))

    def together(self, call: Callable[[int], str]) -> Raw:
        like = self.parts[0]
        names = [name for name in like.columns if all(name in part.columns for part in self.parts)]
        labels = [part.labels for part in self.parts if part.labels is not None]
        columns = {name: [part.columns[name] for part in self.parts] for name in names}
        named = columns | ({} if self.label is None else {self.label: labels})
        mixed = [name for name, values in named.items() if len({v.dtype.kind in "OUS" for v in values}) > 1]
        if mixed:
            raise Mixed(mixed)
        return replace(
            like,
            inputs=self.inputs.all(),
            labels=np.concatenate(labels) if labels else None,
            columns={name: np.concatenate(values) for name, values in columns.items()},
            call=call,
        )


class Nameless:
    """Keeps a file without a name, which is gone with it. Pickled, it is for another process of the same machine, which
    opens the file as long as this one has it."""

    file: IO[bytes]

    def __post_init__(self) -> None:
        self._keep(tempfile.TemporaryFile())  # noqa: SIM115 (it is read for as long as this is)

    def _keep(self, file: IO[bytes]) -> None:
        self.file = file
        weakref.finalize(self, _closed, file)

    def __getstate__(self) -> dict[str, Any]:
        self.file.flush()
        return {**vars(self), "file": (f"/proc/{os.getpid()}/fd/{self.file.fileno()}", _which(self.file))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        path, which = state.pop("file")
        vars(self).update(state)
        self._keep(open(path, "r+b"))  # noqa: SIM115
        if _which(self.file) != which:
            raise FileNotFoundError(errno.ENOENT, "another file has its number", path)


def _which(file: IO[bytes]) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino


def _closed(file: IO[bytes]) -> None:
    with suppress(OSError):  # a full disk was reported when it was written
        file.close()


@dataclass
class Spool(Nameless):
    """Rows of numbers in a file."""

    dtype: np.dtype
    shape: tuple[int, ...] = ()

    def add(self, rows: Any) -> None:
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.shape = ((self.shape or (0,))[0] + len(rows), *rows.shape[1:])

    def all(self) -> np.memmap:
        self.file.flush()
        return np.memmap(self.file, self.dtype, "r+", shape=self.shape)


@dataclass
class Cells(Nameless, Sequence[Any]):
    """Texts, paths, or the bytes of images; bytes are in a file, and are read when they are asked for."""

    cells: list[Any] = field(default_factory=list)  # None for what is in the file
    ends: array[int] = field(default_factory=lambda: array("q", [0]))

    def add(self, cells: Any) -> None:
        for cell in cells:
            inside = isinstance(cell, bytes)
            self.cells.append(None if inside else cell)
            self.ends.append(self.ends[-1] + (self.file.write(cell) if inside else 0))

    def all(self) -> Any:
        self.file.flush()
        return self if self.ends[-1] else self.cells

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, i: Any) -> Any:
        start, end = self.ends[i], self.ends[i + 1]
        return os.pread(self.file.fileno(), end - start, start) if self.cells[i] is None else self.cells[i]
