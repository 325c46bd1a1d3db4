"""Rows as a table in Markdown: a line for each method, the mean over seeds with its spread in each cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.running import LATE, Row, written

Column = tuple[str, float | None]  # a measure, and the k it is taken at; None: whichever k there is


def table(rows: list[Row], columns: dict[str, Column], skip: tuple[str, ...] = ("base",)) -> str:
    """Methods that were given up say so."""
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
    """Those at k; a method that has only one k in every seed, such as a reference, is shown with that."""
    own = [row for row in rows if row.measure == measure]
    single = len(own) == len({row.seed for row in own})
    return [row.value for row in own if single or k in (None, row.k)]


def cell(of: list[float]) -> str:
    """Mean and standard deviation, with as many digits as say something."""
    if not of:
        return "-"
    mean, spread = float(np.mean(of)), float(np.std(of))
    digits = 3 if abs(mean) < 10 else 1 if abs(mean) < 1000 else 0
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if len(of) > 1 else "")


def saved(path: Path, rows: list[Row], columns: dict[str, Column]) -> Path:
    written(path, table(rows, columns).encode())
    return path
