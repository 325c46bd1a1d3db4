"""What a person may decide about a training example, as a table of causes says it."""

from __future__ import annotations

from typing import Any

import numpy as np

from amends.errors import BadInput

REMOVE, RELABEL, KEEP = "remove", "relabel", "keep"
GONE = (REMOVE, RELABEL)  # decisions that take an example's own label away
NEW = "new_label"  # the column with the label that an example to relabel gets


def words(frame: Any, column: str) -> np.ndarray:
    """A column as a person fills it in: text without spaces around it, empty where there is nothing; decisions in
    small letters."""
    if column not in frame:
        return np.full(len(frame), "", dtype=object)
    said = [("" if value is None or value != value else str(value).strip()) for value in frame[column]]
    return np.array([s.lower() for s in said] if column == "decision" else said, dtype=object)


def decided(causes: Any, where: str = "causes") -> Any:
    """The rows of a table of causes that are to go: those that say remove or relabel, or, where none says so, all but
    those to keep. BadInput where a decision is none, or where two rows decide about one example."""
    if "decision" not in causes:
        return causes
    said, named = words(causes, "decision"), "index" if "index" in causes else "id"
    for index, word in zip(causes[named], said, strict=True):
        if word not in ("", KEEP, *GONE):
            todo = "write remove, keep, relabel or nothing"
            raise BadInput(f"decision is {word!r}; {where} at {named} {index}; {todo}")
    rows = causes[said != ""]
    twice = rows[named][rows[named].duplicated()].tolist()
    if twice:
        raise BadInput(f"two rows decide about one example; {where} at {named} {twice[0]}; keep one of them")
    gone = np.isin(said, GONE)
    return causes[gone] if gone.any() else causes[said != KEEP]
