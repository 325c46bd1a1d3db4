"""CSV and parquet: a column of labels, and paths of images, texts, or columns of features."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amends.data.formats.columns import Table, raw
from amends.data.formats.raw import Asked, Raw, split_of
from amends.errors import BadInput, first_line


def csv(path: Path, asked: Asked) -> Raw:
    """A CSV or TSV file, or a folder with one such file per split."""
    import pandas as pd

    path = _file(path, asked, (".csv", ".tsv", ".csv.gz", ".tsv.gz"))
    separator = "\t" if ".tsv" in path.suffixes else ","
    try:
        head = pd.read_csv(path, sep=separator, nrows=0)
        if len(head.columns) == 1 and ";" in head.columns[0]:
            raise BadInput(f"the columns are separated by semicolons; {path}; save it with commas")
        texts: Any = {c: str for c in head.columns if c in ("id", asked.id)}
        table = pd.read_csv(path, sep=separator, dtype=texts, keep_default_na=False, na_values=["", "nan", "NaN"])
    except BadInput:
        raise
    except (ValueError, OSError, EOFError) as e:  # pandas' own errors are ValueErrors
        raise BadInput(f"the table cannot be read ({first_line(e)}); {path}; save it as UTF-8 with a header") from e
    return raw(columns_of(table), path, asked)


def parquet(path: Path, asked: Asked) -> Raw:
    return parquets([_file(path, asked, (".parquet",))], asked)


def parquets(paths: Sequence[Path], asked: Asked) -> Raw:
    """Files of one table, one after the other; class names are those that `datasets` records in them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts, features = [], {}
    for path in paths:
        try:
            part = pq.ParquetFile(path).read()
        except (pa.ArrowException, OSError) as e:
            raise BadInput(f"the table cannot be read ({first_line(e)}); {path}; write it again") from e
        parts.append(part)
        features = features or _features(part.schema.metadata or {})
    where = paths[0] if len(paths) == 1 else paths[0].parent
    try:
        table = pa.concat_tables(parts)
    except pa.ArrowException as e:
        raise BadInput(f"the files do not fit together ({first_line(e)}); {where}; give them the same columns") from e
    return raw(columns_of(table.to_pandas(ignore_metadata=True)), where, asked, features)


def columns_of(frame: Any) -> Table:
    """A pandas DataFrame as arrays by name; a missing value is NaN or None."""
    return {str(c): frame[c].to_numpy() for c in frame.columns}


def _features(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    try:
        return json.loads(metadata[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}


def _file(path: Path, asked: Asked, suffixes: tuple[str, ...]) -> Path:
    if not path.is_dir():
        asked.refuse(path, "split")
        return path
    files = {p.name.split(".")[0]: p for p in sorted(path.iterdir()) if p.name.endswith(suffixes)}
    if not files:
        raise BadInput(f"no file ends in {suffixes[0]}; {path}; give the file itself")
    return files[split_of(asked.split, list(files), path)]
