"""From scores to a set of causes."""

from __future__ import annotations

import numbers
from collections import Counter
from typing import Any

import numpy as np

from amends.config.decisions import GONE, decided, words
from amends.errors import BadInput, first_line


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """Indices of the k highest, highest first; ties in the order of D."""
    if not isinstance(k, numbers.Integral) or isinstance(k, bool) or k < 0:
        raise BadInput(f"k is {k!r}, expected a whole number of 0 or more; top; give a count of examples")
    if k > len(scores):
        raise BadInput(f"k is {k}, but train has {len(scores)} examples; top; give at most {len(scores)}")
    return np.argsort(-scores, kind="stable")[: int(k)]


def fraction(scores: np.ndarray, share: float) -> np.ndarray:
    """The highest share of D."""
    if not isinstance(share, numbers.Real) or not 0 <= float(share) <= 1:
        raise BadInput(f"the share is {share!r}, expected 0 to 1; fraction; 0.1 is a tenth of train")
    return top(scores, round(float(share) * len(scores)))


def positive(scores: np.ndarray) -> np.ndarray:
    """All above zero, highest first."""
    return top(scores, int((scores > 0).sum()))


def indices(causes: Any, size: int, names: np.ndarray | None = None) -> np.ndarray:
    """Causes as unique integer positions: from positions, from a boolean mask over train, or from a table of causes,
    whose ids count where the examples have `names`, and whose decisions are followed."""
    if {"index", "id"} & set(getattr(causes, "columns", ())):  # result.causes, or a part of it
        rows = decided(causes)
        at, gone = np.unique(places(rows, size, names)), np.isin(words(rows, "decision"), GONE).any()
        if gone and len(at) == size > 0:
            raise BadInput("every row of the table removes, and it holds all of train; causes; keep some of them")
        if not gone and len(causes) == size > 0:
            raise BadInput(
                "the table holds all of train, and no row says remove or relabel; causes; give its first rows, or "
                "write remove into its column decision"
            )
        return at
    try:
        given = np.asarray(causes.cpu() if hasattr(causes, "cpu") else causes)
    except (TypeError, ValueError) as e:
        raise BadInput(f"causes cannot be read ({first_line(e)}); causes; give integer positions or a mask") from e
    if given.dtype == bool:
        if given.shape != (size,):
            raise BadInput(f"the mask has shape {list(given.shape)}, train has {size} examples; causes; give [{size}]")
        return np.flatnonzero(given)
    if given.size == 0:
        return np.zeros(0, dtype=np.int64)
    if given.shape == (size,) and np.issubdtype(given.dtype, np.floating):
        raise BadInput(
            "causes look like scores, one for each training example; causes; give the positions of the highest: "
            "identify(..., method=scores).top(k)"
        )
    if hasattr(causes, "top"):
        raise BadInput("causes is the whole result of identify; causes; pass the highest scores, such as .top(k)")
    if not np.issubdtype(given.dtype, np.integer) or given.ndim != 1:
        raise BadInput(
            f"causes hold {given.dtype} of shape {list(given.shape)}; causes; give integer positions or a mask"
        )
    if given.shape == (size,) and size > 2 and set(np.unique(given).tolist()) <= {0, 1}:
        raise BadInput("causes look like a mask of 0 and 1; causes; pass it as booleans, or give positions")
    outside = given[(given < 0) | (given >= size)]
    if len(outside):
        raise BadInput(
            f"causes holds index {outside[0]}, but train has {size} examples; causes; "
            "drop it or pass the set it was made for"
        )
    return np.unique(given)


def places(table: Any, size: int, names: np.ndarray | None = None) -> np.ndarray:
    """The position in train of every row of a table of causes."""
    if "index" not in table and (names is None or "id" not in table):
        raise BadInput("the table has no column index, and no ids that train has too; causes; give a table of causes")
    places = None if "index" not in table else _whole(table["index"])
    if names is not None and "id" in table:
        return _named([_text(name) for name in table["id"]], places, names)
    if places is None:
        raise BadInput("a cell of the column index is not a whole number; causes; put the position back")
    indices(np.array(places), size)
    return np.array(places, dtype=np.int64)


def _whole(column: Any) -> list[int] | None:
    """A column of positions, which a file may have as text, and a spreadsheet or a merge as floats; None where one of
    them is no whole number."""
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return values.astype(np.int64).tolist() if (values % 1 == 0).all() else None


def _text(name: Any) -> str:
    """An id as text, for files do not tell 7 from "7"; empty where it is missing."""
    return "" if name is None or name != name else str(name)


def _named(ids: list[str], places: list[int] | None, names: Any) -> np.ndarray:
    """The positions of these ids, compared as text; their old positions, if the ids are still there or the table has no
    other ids. An id may have the ' that keeps a spreadsheet from computing it."""
    from amends.tables.cells import unguarded

    known = [_text(name) for name in names]
    there = set(known)
    ids = [name if name in there else unguarded(name) for name in ids]
    if places is not None and all(
        0 <= at < len(known) and known[at] == name for name, at in zip(ids, places, strict=True)
    ):
        return np.array(places, dtype=np.int64)
    times, place = Counter(known), {name: i for i, name in enumerate(known)}
    odd = next((name for name in ids if times[name] != 1), None)
    if odd is not None and places is not None and ids == [str(at) for at in places]:
        indices(np.array(places), len(known))
        return np.array(places, dtype=np.int64)
    if odd is not None:
        what = f"{times[odd]} training examples have" if times[odd] else "no training example has"
        raise BadInput(f"{what} the id {odd!r}; causes; give a table made of this set, or positions in it")
    return np.array([place[name] for name in ids], dtype=np.int64)
