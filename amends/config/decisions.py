"""The decisions a person may make about training examples, in a table of causes."""

from __future__ import annotations

from typing import Any

import numpy as np

from amends.errors import BadInput

REMOVE, RELABEL, KEEP = "remove", "relabel", "keep"
GONE = (REMOVE, RELABEL)  # decisions that take an example's own label away
NEW = "new_label"  # the column with the label that an example to relabel gets


def words(frame: Any, column: str) -> np.ndarray:
    """A column that a person fills in, as text without spaces around it, empty for missing values; decisions in lower
    case."""
    if column not in frame:
        return np.full(len(frame), "", dtype=object)
    cells = [("" if value is None or value != value else str(value).strip()) for value in frame[column]]
    return np.array([s.lower() for s in cells] if column == "decision" else cells, dtype=object)


def decided(causes: Any, where: str = "causes") -> Any:
    """The rows of a table of causes to remove or relabel; if no row has such a decision, all rows except those to keep.
    BadInput if a decision is unknown, or if two rows decide about one example."""
    if "decision" not in causes:
        return causes
    decisions, named = words(causes, "decision"), "index" if "index" in causes else "id"
    for index, word in zip(causes[named], decisions, strict=True):
        if word not in ("", KEEP, *GONE):
            todo = "write remove, keep, relabel or nothing"
            raise BadInput(f"decision is {word!r}; {where} at {named} {index}; {todo}")
    rows = causes[decisions != ""]
    twice = rows[named][rows[named].duplicated()].tolist()
    if twice:
        raise BadInput(f"two rows decide about one example; {where} at {named} {twice[0]}; keep one of them")
    gone = np.isin(decisions, GONE)
    return causes[gone] if gone.any() else causes[decisions != KEEP]
