"""Tables as CSV files for people: every word comes back as it was, and a spreadsheet takes no cell for a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"'*[=+\-@\t\r]")  # the start of a cell that a spreadsheet would compute
GUARDED = re.compile(r"'+[=+\-@\t\r]")


def guarded(value: Any) -> Any:
    """A word that a spreadsheet would compute gets a ' in front, which makes it text there; numbers stay."""
    if not isinstance(value, str) or not FORMULA.match(value) or _is_number(value):
        return value
    return f"'{value}"


def unguarded(value: Any) -> Any:
    """The word before `guarded`."""
    return value[1:] if isinstance(value, str) and GUARDED.match(value) else value


def write_table(frame: pd.DataFrame, path: Path, *, guard: bool = True) -> None:
    """A data frame without its index; with `guard=False` word for word, for programs."""
    columns = [_values(frame.iloc[:, i]) for i in range(frame.shape[1])]
    write_rows(list(zip(*columns, strict=True)), path, [str(c) for c in frame.columns], guard=guard)


def write_rows(rows: Iterable[Any], path: Path, columns: Sequence[str], *, guard: bool = True) -> None:
    """A CSV with a header, also where there is no row; a row has its values in order, or by name.

    The csv writer is set to end lines with CR LF, so that it quotes a lone carriage return; the file has only LF."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\r\n")
    every: Iterable[Any] = chain([[*columns]], rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        for row in every:
            values = [row[name] for name in columns] if isinstance(row, Mapping) else row
            writer.writerow([_cell(guarded(value) if guard else value) for value in values])
            file.write(line.getvalue()[:-2] + "\n")
            line.seek(0)
            line.truncate()


def _values(column: pd.Series) -> list[Any]:
    """Plain Python values; a float32 with no more digits than it needs."""
    values = column.to_numpy()
    return [float(str(v)) for v in values] if values.dtype == "float32" else values.tolist()


def _cell(value: Any) -> Any:
    """An empty cell for a missing number."""
    return "" if isinstance(value, float) and value != value else value


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
