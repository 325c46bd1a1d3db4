"""CSV and parquet: a label beside paths of images, a text, or columns of features."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amends.data.formats.raw import IMAGE, ROW, TEXT, Asked, Raw, nearest, split_of
from amends.data.given import IDS
from amends.data.views import LABELS
from amends.errors import BadInput, first_line

Table = Mapping[str, np.ndarray]
IMAGES = ("image", "img", "image_path", "path", "file", "file_name", "filename")
STRAY = 0.05  # share of the cells that may be words in what is meant for a column of numbers
TEXTS = ("text", "sentence", "review", "question", "content", "document", "prompt")


def csv(path: Path, asked: Asked) -> Raw:
    """A CSV (or TSV) file, or a folder of them with one a split."""
    import pandas as pd

    path = _file(path, asked, (".csv", ".tsv", ".csv.gz", ".tsv.gz"))
    separator = "\t" if ".tsv" in path.suffixes else ","
    try:
        head = pd.read_csv(path, sep=separator, nrows=0)
        if len(head.columns) == 1 and ";" in head.columns[0]:
            raise BadInput(f"its columns are set apart by ;; {path}; save it with commas")
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
    """Files of one table, end to end; the names of classes are taken from what `datasets` notes in them."""
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
    """A pandas DataFrame as arrays by name; what is missing is NaN or None."""
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
        raise BadInput(f"no file that ends in {suffixes[0]}; {path}; give the file itself")
    return files[split_of(asked.split, list(files), path)]


def raw(table: Table, path: Path, asked: Asked, features: Mapping[str, Any] | None = None) -> Raw:
    """From columns to inputs, labels and what is left: the user's own."""
    if not table or not len(next(iter(table.values()))):
        raise BadInput(f"no rows; {path}; give at least one")

    def column(name: str, what: str) -> str:
        if name not in table:
            raise BadInput(f"no column {name!r} for {what}; {path}; {nearest(name, table)}")
        return name

    labels = _labels(table, path, asked, column)
    left = [c for c in table if c not in labels]
    used, kind = _inputs(table, path, asked, left, column)
    for c in [*labels, *used]:
        gone = next(iter(_missing(table[c])), None)
        if gone is not None:
            raise BadInput(f"nothing in column {c}; {path} row {gone}; fill it in or drop the row")
    own = [c for c in left if (c not in used or kind != ROW) and not _is_nested(table[c])]
    columns = {c: table[c] for c in own if c != asked.id}
    if asked.id is not None:
        columns["id"] = table[column(asked.id, "id")]
    named = (features or {}).get(labels[0], {}) if labels else {}
    classes = tuple(named["names"]) if named.get("_type") == "ClassLabel" else ()
    several = asked.target == "labels"
    return Raw(
        kind,
        _values(table, used, kind, path),
        _side_by_side(table, labels) if several or len(labels) > 1 else table[labels[0]] if labels else None,
        str(path),
        columns,
        tuple(labels) if several else classes,
        tuple(used) if kind == ROW and not _is_nested(table[used[0]]) else (),
        lambda i: f"{path} row {i}",
    )


def _labels(table: Table, path: Path, asked: Asked, column: Any) -> list[str]:
    if asked.target == "tokens":
        return []
    if asked.label is not None:
        return [column(c, "label") for c in ([asked.label] if isinstance(asked.label, str) else asked.label)]
    if asked.target == "labels":
        raise BadInput(f"several labels are asked for; {path}; name their columns of 0 and 1 with label")
    found = next((c for c in LABELS if c in table), None)
    if found is None:
        raise BadInput(f"no label column among {', '.join(table)}; {path}; name it with label")
    return [found]


def _inputs(table: Table, path: Path, asked: Asked, left: list[str], column: Any) -> tuple[list[str], str]:
    """The columns a model looks at, and what they are; guessed by their names where nobody says."""
    if asked.image is not None:
        return [column(asked.image, "images")], IMAGE
    if asked.text is not None:
        return [column(asked.text, "text")], TEXT
    if asked.features is not None:
        names = [asked.features] if isinstance(asked.features, str) else asked.features
        return [column(c, "features") for c in names], ROW
    image = next((c for c in IMAGES if c in left and not _is_numeric(table[c])), None)
    if image is not None:
        return [image], IMAGE
    text = next((c for c in TEXTS if c in left and _is_text(table[c])), None)
    numbers = [c for c in left if _is_numeric(table[c]) and c not in (*IDS, asked.id)]
    for c in left if numbers and text is None else ():
        if c not in (*IDS, asked.id):
            _nearly_numbers(table[c], c, path)
    if text is not None and (asked.encoded or not numbers):
        return [text], TEXT
    if not numbers:
        raise BadInput(f"no inputs among {', '.join(left) or 'no columns'}; {path}; name them: image, text or features")
    return numbers, ROW


def _nearly_numbers(column: np.ndarray, name: str, path: Path) -> None:
    """A column of numbers that a word or two would take out of the inputs."""
    if _is_numeric(column) or _is_nested(column):
        return
    words = [str(v) for v in column]
    missing = set(_missing(column))
    if any(w.isdigit() and w[0] == "0" and len(w) > 1 for w in words):  # codes
        return
    odd = [i for i, v in enumerate(column) if i not in missing and not _is_number(v)]
    if 0 < len(odd) <= len(column) * STRAY:
        word = column[odd[0]]
        raise BadInput(f"column {name} holds {word!r}; {path} row {odd[0]}; give numbers, or name the inputs: features")


def _values(table: Table, used: list[str], kind: str, path: Path) -> Any:
    if kind == TEXT:
        return [str(v) for v in table[used[0]]]
    if kind == IMAGE:
        folder = path if path.is_dir() else path.parent
        return [_picture(v, folder) for v in table[used[0]]]
    if len(used) == 1 and _is_nested(table[used[0]]):
        return _stacked(table[used[0]], f"{path}, column {used[0]}")
    for c in used:
        if not _is_numeric(table[c]):
            at = next((i for i, v in enumerate(table[c]) if not _is_number(v)), 0)
            raise BadInput(f"column {c} holds {table[c][at]!r}; {path} row {at}; give numbers, or leave it out")
    return _side_by_side(table, used).astype(np.float64)


def _side_by_side(table: Table, names: list[str]) -> np.ndarray:
    return np.stack([table[c] for c in names], 1)


def _picture(cell: Any, folder: Path) -> Any:
    """A path, relative to the table; or an image inside the table, as `datasets` keeps them."""
    if isinstance(cell, Mapping):
        cell = cell.get("bytes") or cell.get("path")
    return folder / cell if isinstance(cell, str) else cell


def _stacked(cells: Any, where: str) -> np.ndarray:
    rows = [np.asarray(_plain(v)) for v in cells]
    for i, row in enumerate(rows):
        if row.shape != rows[0].shape or row.dtype.kind not in "biuf":
            raise BadInput(f"arrays {list(rows[0].shape)} and {list(row.shape)}; {where} row {i}; give one shape")
    return np.stack(rows)


def _plain(value: Any) -> Any:
    """Arrays of arrays, as parquet gives them, as lists."""
    return [_plain(v) for v in value] if isinstance(value, np.ndarray) and value.dtype == object else value


def _is_numeric(column: np.ndarray) -> bool:
    return column.dtype.kind in "biuf"


def _is_number(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError):
        return False


def _missing(column: np.ndarray) -> list[int]:
    if _is_numeric(column):
        return np.flatnonzero(column != column).tolist()
    return [i for i, v in enumerate(column) if _is_missing(v)]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and bool(value != value))


def _first(column: np.ndarray) -> Any:
    return next((v for v in column if not _is_missing(v)), None)


def _is_text(column: np.ndarray) -> bool:
    return not _is_numeric(column) and isinstance(_first(column), str)


def _is_nested(column: np.ndarray) -> bool:
    return not _is_numeric(column) and isinstance(_first(column), np.ndarray | list | Mapping | bytes)
