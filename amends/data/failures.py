"""Some examples out of a set: by position, by mask, by the ids the user knows them under, or from a list in a file.

Failures may come as a set of their own; these are for those who have an evaluation set and know which
of it the model got wrong.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from amends.data.records import Records
from amends.errors import BadInput, first_line, nearest


def select(records: Records, which: Any) -> Records:
    """Those of the records that are asked for, in the order asked for.

    `which` holds whole numbers (positions), a mask of true and false, or texts (ids, looked up in the
    column `id`, or `path` where there is none); or is the path of a CSV file with a column `id` or `index`.
    """
    if not isinstance(records, Records):
        raise BadInput(f"a {type(records).__name__} in place of records; select; pass what amends.data.read returns")
    return records[positions(records, which)]


def positions(records: Records, which: Any, where: str = "select") -> np.ndarray:
    """Where those that are asked for stand, as `select` takes them; `where` is what an error names."""
    if isinstance(which, str | Path):
        return _listed(records, Path(which))
    array = np.asarray(which)
    if array.ndim != 1 or not len(array):
        raise BadInput(f"nothing is chosen, shape {list(array.shape)}; {where}; give a row of positions, ids or a mask")
    if array.dtype.kind in "USO" and all(isinstance(v, str) for v in array):
        return _found(records, array, where)
    if array.dtype == bool:
        if len(array) != len(records) or not array.any():
            raise BadInput(
                f"a mask of {len(array)} with {array.sum()} true, over {len(records)} examples; {where}; "
                "give one entry for each, and one or more that are true"
            )
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        raise BadInput(f"the choice holds {array.dtype}; {where}; give whole numbers, ids as text, or a mask")
    outside = array[(array < 0) | (array >= len(records))]
    if len(outside):
        raise BadInput(f"position {outside[0]}, but there are {len(records)} examples; {where}; count from 0")
    _once(array.tolist(), "position", where)
    return array.astype(np.int64)


def _found(records: Records, ids: np.ndarray, where: str) -> np.ndarray:
    """Where the ids stand. They are compared as text, for files do not tell 7 from "7"."""
    column = next((c for c in ("id", "path") if c in records.columns), None)
    if column is None:
        raise BadInput(f"the examples have no ids; {records.where or 'records'}; name the column of ids with id")
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


def _listed(records: Records, path: Path) -> np.ndarray:
    """Positions from a file; ids count where the records have them."""
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, OSError) as e:
        raise BadInput(f"the list cannot be read ({first_line(e)}); {path}; give a CSV with id or index") from e
    has_ids = "id" in records.columns or "path" in records.columns
    column = next((c for c in (("id", "index") if has_ids else ("index", "id")) if c in table.columns), None)
    if column is None:
        raise BadInput(f"no column id or index; {path}; {nearest('id', table.columns)}")
    values = table[column].to_numpy()
    if column == "id":
        return positions(records, values.astype(object), str(path))
    if not all(v.isdigit() for v in values):
        bad = next(i for i, v in enumerate(values) if not v.isdigit())
        raise BadInput(f"index {values[bad]!r} is no position; {path} row {bad}; give whole numbers from 0")
    return positions(records, values.astype(np.int64), str(path))
