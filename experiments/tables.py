"""Rows as a Markdown table: one line per method, and in each cell the mean over seeds with its standard deviation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.protocol import REFERENCES
from experiments.running import LATE, Row, written

Column = tuple[str, float | None]  # a measure and its k; None: any k


def table(rows: list[Row], columns: dict[str, Column], skip: tuple[str, ...] = ("base",)) -> str:
    """The table in Markdown. A method that was given up, or lacks seeds, has a note after its name."""
    names = [name for name in dict.fromkeys(row.method for row in rows) if name not in skip]
    seeds = len({row.seed for row in rows})
    lines = [f"| method | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in names:
        own = [row for row in rows if row.method == name]
        tried, late = len({row.seed for row in own}), sum(row.measure == LATE and row.value > 0 for row in own)
        note = f" (given up in {late} of {tried})" if late else "" if tried == seeds else f" ({tried} of {seeds} seeds)"
        if any(row.measure == LATE and row.value == 0 for row in own):
            note = " (not finished)"
        cells = [cell(values(own, measure, k)) for measure, k in columns.values()]
        lines.append(f"| {name}{note} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def values(rows: list[Row], measure: str, k: float | None) -> list[float]:
    """The values at k. A method with only one k in every seed, such as a reference, is shown with that one."""
    own = [row for row in rows if row.measure == measure]
    single = len(own) == len({row.seed for row in own})
    return [row.value for row in own if single or k in (None, row.k)]


def removed(rows: list[Row]) -> list[int]:
    """The numbers of causes that some method removed, as the rows have them."""
    return sorted({int(row.k) for row in rows if row.measure == "holdout" and row.method not in REFERENCES})


def cell(numbers: list[float]) -> str:
    """Mean and standard deviation, with as many digits as are meaningful."""
    if not numbers:
        return "-"
    mean, spread = float(np.mean(numbers)), float(np.std(numbers))
    digits = 3 if abs(mean) < 10 else 1 if abs(mean) < 1000 else 0
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if len(numbers) > 1 else "")


def saved(path: Path, rows: list[Row], columns: dict[str, Column]) -> Path:
    written(path, table(rows, columns).encode())
    return path
