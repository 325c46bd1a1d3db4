"""From the columns of a table to inputs, labels and the user's own columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amends.data.formats.chat import as_text, conversations
from amends.data.formats.raw import IMAGE, ROW, TEXT, Asked, Raw
from amends.data.given import IDS
from amends.data.views import LABELS
from amends.errors import BadInput, nearest

Table = Mapping[str, np.ndarray]
Place = Callable[[int], str]
IMAGES = ("image", "img", "image_path", "path", "file", "file_name", "filename")
INDEX = "Unnamed: 0"  # as pandas calls a first column without a name, which it wrote as an index
STRAY = 0.05  # a column with a smaller share of words than this is meant to hold numbers
TEXTS = ("text", "sentence", "review", "question", "content", "document", "prompt")


def raw(
    table: Table, path: Path, asked: Asked, features: Mapping[str, Any] | None = None, at: Place | None = None
) -> Raw:
    """Inputs, labels, and the user's own columns. `at` names a row in an error; by its place in the file when None."""
    at = at or (lambda i: at_row(path, i, breaks_in(table, i)))
    if not table or not len(next(iter(table.values()))):
        raise BadInput(f"the table has no rows; {path}; give at least one")
    if len({len(values) for values in table.values()}) > 1:
        raise BadInput(f"columns have different numbers of rows; {path}; the file is damaged, copy it again")
    if asked.target == "response":
        return _chat(table, path, asked, at)
    labels = labels_in(table, path, asked)
    left = [c for c in table if c not in labels]
    used, kind = inputs_in(table, path, asked, left, at)
    _refuse_gaps({c: table[c] for c in (*labels, *used)}, at)
    columns = {c: table[c] for c in (left if kind != ROW else [c for c in left if c not in used])}
    rows = kind == ROW and not _is_nested(table[used[0]])
    return Raw(
        kind,
        _values(table, used, kind, path, at),
        _targets(table, labels, asked),
        str(path),
        _own(columns, table, path, asked),
        tuple(labels) if asked.target == "labels" else _class_names(features or {}, labels),
        tuple(used) if rows else (),
        at,
    )


def _chat(table: Table, path: Path, asked: Asked, at: Place) -> Raw:
    """Conversations, of which the responses are asked; `text` is how a person reads one."""
    found = conversations(table, path, asked, at)
    text = np.array([as_text(one) for one in found], dtype=object)
    own = {"text": text, **_own(table, table, path, asked)}
    return Raw(TEXT, found, None, str(path), own, call=at)


def _refuse_gaps(needed: Table, at: Place) -> None:
    """BadInput for empty cells among what the model needs: how many, in which columns, and where the first is."""
    gaps = {c: found for c, values in needed.items() if (found := _missing(values))}
    if gaps:
        column, first = min(((c, found[0]) for c, found in gaps.items()), key=lambda gap: gap[1])
        total, others = sum(map(len, gaps.values())), [c for c in gaps if c != column]
        what = f"column {column} is empty" if total == 1 else f"{total} cells are empty, the first in column {column}"
        what += f" (others in {', '.join(others[:5])})" if others else ""
        todo = "fill it in or drop the row" if total == 1 else "fill them in or drop the rows"
        raise BadInput(f"{what}; {at(first)}; {todo}")


def at_row(path: Path, row: int, breaks: int) -> str:
    """A row, for an error: by its line where the file has lines; cells of rows before it have so many `breaks`."""
    if ".jsonl" in path.suffixes:
        return f"{path} line {row + 1}"
    if not {".csv", ".tsv"} & {s.lower() for s in path.suffixes}:
        return f"{path} row {row}"
    return f"{path} line {row + 2 + breaks}"


def breaks_in(table: Table, rows: int) -> int:
    """Ends of lines inside the cells of the first rows."""
    return sum(v.count("\n") for values in table.values() for v in values[:rows] if isinstance(v, str))


def _own(columns: Table, table: Table, path: Path, asked: Asked) -> Table:
    """The user's own columns: what a person can read, with the ids as `id`."""
    own = {c: values for c, values in columns.items() if c != asked.id and not _is_nested(values)}
    return own if asked.id is None else {**own, "id": table[_present(asked.id, "id", table, path)]}


def _class_names(features: Mapping[str, Any], labels: list[str]) -> tuple[str, ...]:
    """As `datasets` records them, where the label is one of its class labels."""
    noted = features.get(labels[0], {}) if labels else {}
    return tuple(noted["names"]) if noted.get("_type") == "ClassLabel" else ()


def _targets(table: Table, labels: list[str], asked: Asked) -> np.ndarray | None:
    if asked.target == "labels" or len(labels) > 1:
        return _side_by_side(table, labels)
    return table[labels[0]] if labels else None


def _present(name: str, what: str, table: Table, path: Path) -> str:
    if name not in table:
        raise BadInput(f"there is no column {name!r} for {what}; {path}; {nearest(name, table)}")
    return name


def _as_list(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def labels_in(table: Table, path: Path, asked: Asked) -> list[str]:
    """The columns that are the labels."""
    if asked.target == "tokens":
        return []
    if asked.label is not None:
        return [_present(c, "label", table, path) for c in _as_list(asked.label)]
    if asked.target == "labels":
        raise BadInput(f"target is 'labels', but label is not given; {path}; name the columns of 0 and 1 with label")
    label = next((c for c in LABELS if c in table), None)
    if label is None:
        raise BadInput(f"no label column among {', '.join(table)}; {path}; name it with label")
    return [label]


def inputs_in(table: Table, path: Path, asked: Asked, left: list[str], at: Place) -> tuple[list[str], str]:
    """The columns that are the inputs, and their kind: as asked for, otherwise guessed by their names."""
    for key, kind in (("image", IMAGE), ("text", TEXT), ("features", ROW)):
        names = getattr(asked, key)
        if names is not None:
            return [_present(c, key, table, path) for c in _as_list(names)], kind
    return _guessed(table, path, asked, left, at)


def _guessed(table: Table, path: Path, asked: Asked, left: list[str], at: Place) -> tuple[list[str], str]:
    image = next((c for c in IMAGES if c in left and not _is_numeric(table[c])), None)
    if image is not None:
        return [image], IMAGE
    text = next((c for c in TEXTS if c in left and _is_text(table[c])), None)
    unnamed = [c for c in left if c not in (*IDS, INDEX, asked.id)]
    numbers = [c for c in unnamed if _is_numeric(table[c])]
    for c in unnamed if numbers and text is None else ():
        _refuse_strays(table, c, at)
    if text is not None and (asked.encoded or not numbers):
        return [text], TEXT
    if not numbers:
        raise BadInput(
            f"no inputs among {', '.join(left) or 'no columns'}; {path}; name them with image, text or features"
        )
    return numbers, ROW


def _refuse_strays(table: Table, name: str, at: Place) -> None:
    """BadInput for a column of numbers that a few words would take out of the inputs."""
    column = table[name]
    if _is_numeric(column) or _is_nested(column):
        return
    words = [str(v) for v in column]
    missing = set(_missing(column))
    if any(w.isdigit() and w[0] == "0" and len(w) > 1 for w in words):  # codes, such as 007
        return
    odd = [i for i, v in enumerate(column) if i not in missing and not _is_number(v)]
    if 0 < len(odd) <= len(column) * STRAY:
        word = column[odd[0]]
        raise BadInput(f"column {name} holds {word!r}; {at(odd[0])}; give numbers, or name the inputs with features")


def _values(table: Table, used: list[str], kind: str, path: Path, at: Place) -> Any:
    if kind == TEXT:
        return [str(v) for v in table[used[0]]]
    if kind == IMAGE:
        folder = path if path.is_dir() else path.parent
        return [_picture(v, folder) for v in table[used[0]]]
    if len(used) == 1 and _is_nested(table[used[0]]):
        return _stacked(table[used[0]], f"{path}, column {used[0]}")
    for c in used:
        if not _is_numeric(table[c]):
            odd = next((i for i, v in enumerate(table[c]) if not _is_number(v)), 0)
            raise BadInput(f"column {c} holds {table[c][odd]!r}; {at(odd)}; give numbers, or leave it out")
    return np.stack([table[c] for c in used], 1, dtype=np.float64)


def _side_by_side(table: Table, names: list[str]) -> np.ndarray:
    return np.stack([table[c] for c in names], 1)


def _picture(cell: Any, folder: Path) -> Any:
    """A path, relative to the table; or an image inside the table, as `datasets` stores them."""
    if isinstance(cell, Mapping):
        cell = cell.get("bytes") or cell.get("path")
    return folder / cell if isinstance(cell, str) else cell


def _stacked(cells: Any, where: str) -> np.ndarray:
    rows = [np.asarray(_plain(v)) for v in cells]
    for i, row in enumerate(rows):
        if row.shape != rows[0].shape or row.dtype.kind not in "biuf":
            raise BadInput(
                f"arrays {list(rows[0].shape)} and {list(row.shape)}; {where} row {i}; give numbers of one shape"
            )
    return np.stack(rows)


def _plain(value: Any) -> Any:
    """Arrays of arrays, as parquet returns them, as lists."""
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
