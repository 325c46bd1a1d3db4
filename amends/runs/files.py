"""Single files of a run folder, checked when they are read: what is missing or damaged is named in one line."""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from amends.errors import BadInput, DiskError, RunMismatch, first_line
from amends.tables.cells import unguarded

if TYPE_CHECKING:
    import pandas as pd

AGAIN = "make the run again"
METRICS: dict[str, type] = {
    "verdict": str, "reason": str, "query": dict, "holdout": dict, "overall": dict, "evaluation": dict,
    "intervals": dict, "changes": dict, "p_values": dict, "fixed": int, "newly_broken": int, "removed": int,
    "controls": dict, "groups": dict, "classes": dict, "harmed": list, "keep": dict, "suspects": list,
    "duplicates": list, "warnings": list, "fixed_at": list, "broken_at": list,
}  # fmt: skip
PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+\Z")


def read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # a carriage return inside a cell stays one
            return file.read()
    except FileNotFoundError:
        raise _missing(path) from None
    except UnicodeDecodeError as e:
        if path.suffix == ".csv":  # a person may have saved it from a spreadsheet: nothing is lost
            raise BadInput(f"the file is not text in UTF-8; {path}; save it as CSV in UTF-8") from None
        raise _damaged(path, e) from None
    except OSError as e:
        raise DiskError(f"{e.strerror or e}; {path}; check the disk and the permissions of the file") from e


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise _damaged(path, e) from None


def read_json(path: Path, kind: type = dict) -> Any:
    try:
        value = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as e:
        raise _damaged(path, e) from None
    if not isinstance(value, kind):
        raise RunMismatch(f"{path.name} holds a {type(value).__name__}, not a {kind.__name__}; {path}; {AGAIN}")
    return value


def read_metrics(path: Path) -> dict[str, Any]:
    metrics = read_json(path)
    for name, kind in METRICS.items():
        if not isinstance(metrics.get(name), kind):
            raise RunMismatch(f"{name} is missing or is not a {kind.__name__}; {path}; {AGAIN}")
    for name in ("query", "holdout", "remaining", "overall"):
        row = metrics.get(name)
        if row is not None and not {"before", "after", "n"} <= set(row):
            raise RunMismatch(f"{name} lacks before, after or n; {path}; {AGAIN}")
    return metrics


def read_looks(path: Path) -> dict[str, Any]:
    """How examples are shown to a person; a picture is inside the file, never an address elsewhere."""
    looks = read_json(path)
    for name in ("train", "failures", "remaining"):
        entries = looks.get(name, {})
        if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
            raise RunMismatch(f"{name} does not hold one entry per example; {path}; {AGAIN}")
        for position, entry in entries.items():
            if "image" in entry and not PICTURE.match(str(entry["image"])):
                raise RunMismatch(f"the image is not a PNG; {path}, {name}[{position}]; {AGAIN}")
    return looks


def read_table(path: Path, needed: Sequence[str], **how: Any) -> pd.DataFrame:
    """A CSV that has the columns `needed`, as amends writes it or as a spreadsheet saves it again."""
    import pandas as pd

    text = read_text(path)
    head = text.partition("\n")[0]
    separator = ";" if head.count(";") > head.count(",") else ","  # spreadsheets of many countries save semicolons
    try:
        frame = pd.read_csv(io.StringIO(text), sep=separator, index_col=False, **how)
    except ValueError as e:
        raise _damaged(path, e) from None
    for column in needed:
        if column not in frame.columns:
            raise RunMismatch(f"column {column} is missing; {path}; put it back, or {AGAIN}")
    if "'" not in text:  # then nothing was guarded
        return frame
    texts = {
        c: [unguarded(value) for value in frame[c].tolist()] for c in frame.columns if frame[c].dtype.kind not in "biuf"
    }
    return frame.assign(**texts).rename(columns=unguarded)


def read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError) as e:  # pyarrow raises one or the other
        raise _damaged(path, e) from None


def whole_numbers(frame: pd.DataFrame, column: str, path: Path) -> np.ndarray:
    """A column of counts; RunMismatch names the line of a cell that holds none."""
    import pandas as pd

    values = np.asarray(pd.to_numeric(frame[column], errors="coerce"), dtype=float)
    wrong = np.flatnonzero(~(values >= 0) | (values % 1 != 0))
    if len(wrong):
        cell = frame[column].iloc[wrong[0]]
        raise RunMismatch(f"{column} is {str(cell)!r}; {path} line {wrong[0] + 2}; put the number back, or {AGAIN}")
    return values.astype(np.int64)


def _missing(path: Path) -> RunMismatch:
    return RunMismatch(f"{path.name} is missing; {path.parent}; {AGAIN}, or copy all of it")


def _damaged(path: Path, error: Exception) -> RunMismatch:
    return RunMismatch(f"{path.name} is damaged ({first_line(error)}); {path}; {AGAIN}")
