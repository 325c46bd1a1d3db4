"""What a person decides: about causes, the cut, and failures whose own label is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from amends.config.decisions import KEEP, RELABEL, REMOVE
from amends.errors import BadInput, nearest
from amends.web.table import Table
from amends.web.trail import Step, do, state_of

WAYS = (REMOVE, KEEP, RELABEL, "skip", "clear")
CHUNK = 500


def decide(
    table: Table, positions: Iterable[int], way: str, new_label: str = "", *, person: str = "", key: str | None = None,
    looked: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """One decision for all these rows and their near copies. With `looked` they count as seen."""
    if way not in WAYS:
        raise BadInput(f"decision is {way!r}; the request; {nearest(way, WAYS)}")
    label = label_of(table, new_label) if way == RELABEL else ""
    with table.writing():
        changes = []
        for row in _with_copies(table, positions):
            was = state_of(row)
            now = [was[0], was[1], was[2], 1] if way == "skip" else ["" if way == "clear" else way, label, person, 1]
            now[3] = was[3] if not looked else 1
            if way != "skip" and [now[0], now[1]] == was[:2]:
                now[2] = was[2]
            if now != was:
                changes.append(("row", row["at"], was, now))
        text = f"{way} {_named(table, [at for _, at, _, _ in changes])}" + (f" as {label}" if label else "")
        return do(table, Step("decide", text, changes, person, key))


def label_of(table: Table, text: str) -> str:
    """A new label, checked: one of the classes, or a number if there are none."""
    label, classes = str(text).strip(), table.setting("classes", [])
    if not label:
        raise BadInput("the decision is relabel, but no new label is given; the request; name the label it should get")
    several = str(table.one("select given from causes limit 1") or "").startswith("[")
    if several:
        return _several(label, table)
    if classes and label not in classes:
        raise BadInput(f"there is no class {label!r}; the request; {nearest(label, classes)}")
    if not classes and not _is_number(label):
        raise BadInput(f"the label {label!r} is not a number; the request; this run has no classes, give a number")
    return label


def cut_at(table: Table, cut: int, *, person: str = "", key: str | None = None) -> dict[str, Any]:
    total = table.setting("total", 0)
    if isinstance(cut, bool) or not isinstance(cut, int) or not 0 <= cut <= total:
        raise BadInput(f"the cut is {cut!r}; the request; give a whole number from 0 to {total}")
    with table.writing():
        changes = [] if cut == table.cut else [("cut", 0, table.cut, cut)]
        return do(table, Step("cut", f"cut at {cut}", changes, person, key))


def mark(table: Table, at: int, wrong: bool, *, person: str = "", key: str | None = None) -> dict[str, Any]:
    """A failure whose own label is wrong leaves the query of the next repair."""
    with table.writing():
        was = table.one("select marked from failures where at = ? and part = 'query'", [at])
        if was is None:
            raise BadInput(f"no failure {at!r} was searched with; the request; give the index of one that is shown")
        changes = [] if bool(was) == bool(wrong) else [("mark", at, int(was), int(bool(wrong)))]
        text = f"failure {at}: {'its own label is wrong' if wrong else 'its label is right'}"
        return do(table, Step("mark", text, changes, person, key))


def seen(table: Table, positions: Iterable[int]) -> None:
    with table.writing() as sql:
        sql.executemany("update causes set seen = 1 where at = ?", ((int(at),) for at in positions))


def _named(table: Table, positions: list[int]) -> str:
    """These rows as the trail names them: a single one by its id or position, several by their count."""
    if len(positions) != 1:
        return f"{len(positions)} examples"
    known = table.one("select id from causes where at = ?", positions)
    return f"train[{positions[0]}]" if known == str(positions[0]) else str(known)


def _with_copies(table: Table, positions: Iterable[int]) -> list[Any]:
    """The rows at these positions and their near copies, each once. BadInput if one is not in the table."""
    wanted = list(dict.fromkeys(positions))
    if any(isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < 2**62 for at in wanted):
        raise BadInput("indices holds something else; the request; give positions in train")
    by_position: dict[int, Any] = {}
    for start in range(0, len(wanted), CHUNK):
        part = wanted[start : start + CHUNK]
        marks = ", ".join("?" * len(part))
        rows = table.all(
            f"select * from causes where copy in (select copy from causes where at in ({marks})) order by rank", part
        )
        by_position |= {row["at"]: row for row in rows}
    missing = next((at for at in wanted if at not in by_position), None)
    if missing is not None:
        raise BadInput(f"index {missing} is not among the causes; the request; give positions that are listed")
    return list(by_position.values())


def _several(label: str, table: Table) -> str:
    """A label that is a list of numbers, checked: as long as the labels given."""
    like = json.loads(table.one("select given from causes limit 1"))
    try:
        value = json.loads(label)
        fits = len(value) == len(like) and all(_is_number(str(v)) for v in value)
    except (ValueError, TypeError):
        fits = False
    if not fits:
        raise BadInput(
            f"{label!r} is not a label of train; the request; give a list of {len(like)} numbers in brackets"
        )
    return label


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
