"""JSON lines: an object a line, whose keys are the columns of a table."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from amends.data.formats.columns import raw
from amends.data.formats.raw import Asked, Raw
from amends.errors import BadInput, first_line, kind_of


def jsonl(path: Path, asked: Asked) -> Raw:
    asked.refuse(path, "split")
    rows = lines_of(path)
    return raw(table_of(rows), path, asked)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a file; empty lines count for nothing but the numbers of lines."""
    rows = []
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    raise BadInput(f"the line is empty; {path} line {number}; drop it")
                try:
                    one = json.loads(line)
                except (ValueError, RecursionError) as e:
                    raise BadInput(
                        f"this is not JSON ({first_line(e)}); {path} line {number}; write one object a line"
                    ) from e
                if not isinstance(one, dict):
                    raise BadInput(
                        f"this is {kind_of(one)}, not an object; {path} line {number}; write one object a line"
                    )
                rows.append(one)
    except (OSError, EOFError, UnicodeDecodeError) as e:
        raise BadInput(f"the file cannot be read ({first_line(e)}); {path}; save it as UTF-8") from e
    return rows


def table_of(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Arrays by name; numbers where all of a column are, None where a row does not have the key."""
    names = dict.fromkeys(str(k) for row in rows for k in row)
    return {name: _column([row.get(name) for row in rows]) for name in names}


def _column(cells: list[Any]) -> np.ndarray:
    if all(isinstance(c, int | float) for c in cells):
        return np.asarray(cells)
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column
