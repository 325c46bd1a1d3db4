"""Some examples out of a set: by position, by mask, by the user's own ids, or from a list in a file.

For users who have an evaluation set and know which of its examples the model got wrong.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from amends.data.records import Records
from amends.errors import BadInput, first_line, kind_of, nearest


def select(records: Records, which: Any) -> Records:
    """The chosen records, in the order in which they are chosen.

    `which` is a list of positions, a mask, a list of ids as text (looked up in the column `id`, or in
    `path` where there is none), or the path of a CSV file with a column `id` or `index`.
    """
    if not isinstance(records, Records):
        raise BadInput(f"select takes records, got {kind_of(records)}; pass what amends.data.read returns")
    return records[positions(records, which)]


def positions(records: Records, which: Any, where: str = "select", called: str | None = None) -> np.ndarray:
    """The positions of the chosen records; `which` as for `select`, and `where` as an error names it. In a file the
    ids may also be in the column that the user's own files have them in, as it is `called` there."""
    if isinstance(which, str | Path):
        return _listed(records, Path(which), called)
    array = np.asarray(which)
    if array.ndim != 1 or not len(array):
        what = f"the choice has shape {list(array.shape)}" if array.size else "no examples are chosen"
        raise BadInput(f"{what}; {where}; give a list of positions or ids, or a mask")
    if array.dtype.kind in "USO" and all(isinstance(v, str) for v in array):
        return _by_id(records, array, where)
    if array.dtype == bool:
        if len(array) != len(records) or not array.any():
            raise BadInput(
                f"the mask has {len(array)} entries, {array.sum()} of them true, for {len(records)} examples; {where}; "
                "give one entry per example, at least one of them true"
            )
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        raise BadInput(
            f"the choice holds {array.dtype}; {where}; give positions as whole numbers, ids as text, or a mask"
        )
    outside = array[(array < 0) | (array >= len(records))]
    if len(outside):
        raise BadInput(f"position {outside[0]} is chosen, but there are {len(records)} examples; {where}; count from 0")
    _once(array.tolist(), "position", where)
    return array.astype(np.int64)


def _by_id(records: Records, ids: np.ndarray, where: str) -> np.ndarray:
    """The positions of the ids, compared as text: a CSV does not tell 7 from "7"."""
    column = next((c for c in ("id", "path") if c in records.columns), None)
    if column is None:
        raise BadInput(
            f"the examples have no ids; {records.where or 'records'}; name the column that holds them with id"
        )
    known = [str(v) for v in records.columns[column]]
    place, times = {name: i for i, name in enumerate(known)}, Counter(known)
    wanted = [str(v) for v in ids]
    _once(wanted, "id", where)
    for name in wanted:
        if name not in place:
            raise BadInput(f"no example has the id {name!r}; {where}; {nearest(name, known)}")
        if times[name] > 1:
            raise BadInput(
                f"{times[name]} examples have the id {name!r}; {records.where or 'records'}; give each its own"
            )
    return np.array([place[name] for name in wanted])


def _once(values: list[Any], what: str, where: str) -> None:
    value, times = Counter(values).most_common(1)[0]
    if times > 1:
        raise BadInput(f"{what} {value!r} is listed {times} times; {where}; list it once")


def _listed(records: Records, path: Path, called: str | None) -> np.ndarray:
    """Positions from a file: by its ids where the records have ids, otherwise by its indices."""
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, OSError) as e:
        raise BadInput(
            f"the list cannot be read ({first_line(e)}); {path}; give a CSV file with a column id or index"
        ) from e
    if "decision" in table.columns:
        raise BadInput(
            f"the list has a column decision, and here every row of it would be chosen; {path}; write the decisions to "
            "causes.csv of the run and give --approved, or leave the column out"
        )
    has_ids = "id" in records.columns or "path" in records.columns
    usual = ("id", called, "index") if has_ids else ("index", "id")
    column = next((c for c in usual if c in table.columns), None)
    if column is None:
        names = " or ".join(dict.fromkeys(name for name in (called, "id", "index") if name))
        raise BadInput(f"no column {names}; {path}; {nearest(called or 'id', table.columns)}")
    values = table[column].to_numpy()
    if column != "index":
        return positions(records, values.astype(object), str(path))
    if not all(v.isdigit() for v in values):
        bad = next(i for i, v in enumerate(values) if not v.isdigit())
        raise BadInput(f"index {values[bad]!r} is not a position; {path} row {bad}; give whole numbers from 0")
    return positions(records, values.astype(np.int64), str(path))
