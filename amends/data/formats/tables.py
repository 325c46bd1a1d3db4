"""CSV and parquet: a column of labels, and paths of images, texts, or columns of features."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from amends.data.formats.columns import Table
from amends.data.formats.pieces import Mixed, in_pieces, rows_of
from amends.data.formats.raw import Asked, Raw, split_of
from amends.data.given import named_once
from amends.errors import BadInput, first_line

SOME = 1000  # rows of a CSV that say how long its rows are
PACKED = 4  # how many times as large a gzipped one may well be


def csv(path: Path, asked: Asked) -> Raw:
    """A CSV or TSV file, or a folder with one such file per split."""
    import pandas as pd

    path = _file(path, asked, (".csv", ".tsv", ".csv.gz", ".tsv.gz"))
    how: dict[str, Any] = {"sep": "\t" if ".tsv" in path.name.lower() else ",", "keep_default_na": False}
    with _told(path):
        head = pd.read_csv(path, nrows=SOME, dtype=str, **how)
        named_once((name for name in _names(path, how) if name), path)
        if len(head.columns) == 1 and ";" in head.columns[0]:
            raise BadInput(f"the columns are separated by semicolons; {path}; save it with commas")
        if head.index.nlevels > 1 or not isinstance(head.index, pd.RangeIndex):  # pandas takes what is over for names
            cells = len(head.columns) + head.index.nlevels
            what = f"rows have {cells} cells, but the header has {len(head.columns)}"
            raise BadInput(f"{what}; {path} line 2; give every column a name, and no comma after the last cell")
    how |= {"dtype": {c: str for c in head.columns if c in ("id", asked.id)}, "na_values": ["", "nan", "NaN"]}
    size = sum(int(head[c].str.len().sum()) + len(head) for c in head.columns)
    rows = rows_of(len(head), size, path.stat().st_size * (PACKED if path.suffix.lower() == ".gz" else 1))
    pieces = partial(_lines, path, rows, how)
    try:
        return in_pieces(pieces, path, asked, several=rows is not None)
    except Mixed as e:
        how["dtype"] |= dict.fromkeys(e.columns, str)
        return in_pieces(pieces, path, asked, several=True)


def _names(path: Path, how: dict[str, Any]) -> Sequence[str]:
    """As they stand in the first line; pandas would number those that are there twice."""
    import pandas as pd

    return pd.read_csv(path, header=None, nrows=1, dtype=str, **how).iloc[0].tolist()


def _lines(path: Path, rows: int | None, how: dict[str, Any]) -> Iterator[Table]:
    import pandas as pd

    with _told(path):
        if rows is None:
            yield columns_of(pd.read_csv(path, low_memory=False, **how))  # a column has one type in all of the file
            return
        parts: Any = pd.read_csv(path, chunksize=rows, **how)
        with parts:
            for part in parts:
                yield columns_of(part)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What pandas or arrow says of a file is a BadInput."""
    try:
        yield
    except BadInput:
        raise
    except (ValueError, OSError, EOFError) as e:  # pandas' own errors are ValueErrors
        raise BadInput(f"the table cannot be read ({first_line(e)}); {path}; save it as UTF-8 with a header") from e


def parquet(path: Path, asked: Asked) -> Raw:
    return parquets([_file(path, asked, (".parquet",))], asked)


def parquets(paths: Sequence[Path], asked: Asked) -> Raw:
    """Files of one table, one after the other; class names are those that `datasets` records in them."""
    rows, size, features = 0, 0, {}
    for path in paths:
        with _opened(path) as file:
            about = file.metadata
            named_once(file.schema_arrow.names, path)
            rows += about.num_rows
            size += sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            features = features or _features(file.schema_arrow.metadata or {})
    where, most = paths[0] if len(paths) == 1 else paths[0].parent, rows_of(rows, size, size)
    return in_pieces(lambda: _batches(paths, where, most), where, asked, features, several=most is not None)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError) as e:
        if isinstance(e, BadInput):
            raise
        raise BadInput(f"the table cannot be read ({first_line(e)}); {path}; write it again") from e


def _batches(paths: Sequence[Path], where: Path, rows: int | None) -> Iterator[Table]:
    """All of the files as one piece, or pieces of so many rows."""
    import pyarrow as pa

    parts, schema = [], None
    for path in paths:
        with _opened(path) as file:
            schema = schema or file.schema_arrow
            if rows is None:
                parts.append(file.read())
                continue
            if not file.schema_arrow.equals(schema):
                raise BadInput(f"the files do not fit together; {where}, {path.name} first; give them the same columns")
            for batch in file.iter_batches(rows):
                yield columns_of(batch.to_pandas(ignore_metadata=True))
    if rows is None:
        try:
            table = pa.concat_tables(parts)
        except pa.ArrowException as e:
            what = f"the files do not fit together ({first_line(e)})"
            raise BadInput(f"{what}; {where}; give them the same columns") from e
        yield columns_of(table.to_pandas(ignore_metadata=True))


def columns_of(frame: Any) -> Table:
    """A pandas DataFrame as arrays by name; a missing value is NaN or None."""
    return {str(c): frame[c].to_numpy() for c in frame.columns}


def _features(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    try:
        return json.loads(metadata[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}


def _file(path: Path, asked: Asked, suffixes: tuple[str, ...]) -> Path:
    if not path.is_dir():
        asked.refuse(path, "split")
        return path
    files = {p.name.split(".")[0]: p for p in sorted(path.iterdir()) if p.name.endswith(suffixes)}
    if not files:
        raise BadInput(f"no file ends in {suffixes[0]}; {path}; give the file itself")
    return files[split_of(asked.split, list(files), path)]
