"""What a person decides, step by step: each can be undone, done again, and is on record."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from amends.config.decisions import KEEP, RELABEL, REMOVE
from amends.errors import BadInput, nearest
from amends.web.table import Table

WAYS = (REMOVE, KEEP, RELABEL, "skip", "clear")
DONE, UNDONE, DROPPED, TOLD = range(4)  # states of an action: the last is on record only
NAMED = 1000  # rows an answer names at most
CHUNK = 500


@dataclass(frozen=True)
class Step:
    """One thing that was done: what it is called, and each value before and after."""

    kind: str
    said: str
    changes: Sequence[tuple[str, int, Any, Any]]  # what (row, cut, mark), where, before, after
    person: str = ""
    key: str | None = None


@dataclass(frozen=True)
class Turn:
    """A direction along what was done: which action is next, and which side of it is put back."""

    kind: str
    next: str
    before: int
    after: int
    side: str
    order: str
    nothing: str


BACK = Turn("undo", "max", DONE, UNDONE, "before", "desc",
            "there is nothing to undo; the review; decide something first")  # fmt: skip
FORTH = Turn("redo", "min", UNDONE, DONE, "after", "asc",
             "there is nothing to do again; the review; undo something first")  # fmt: skip


class NothingThere(BadInput):
    """There is nothing to undo, or to do again."""


def decide(
    table: Table, positions: Iterable[int], way: str, new_label: str = "", *, person: str = "", key: str | None = None,
    looked: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """The same for all these rows and their near copies. With `looked` they count as seen."""
    if way not in WAYS:
        raise BadInput(f"decision is {way!r}; the request; {nearest(way, WAYS)}")
    label = label_of(table, new_label) if way == RELABEL else ""
    with table.writing():
        done = _before(table, key)
        if done is not None:
            return done
        changes = []
        for row in _with_copies(table, positions):
            was = _state(row)
            now = [was[0], was[1], was[2], 1] if way == "skip" else ["" if way == "clear" else way, label, person, 1]
            now[3] = was[3] if not looked else 1
            if way != "skip" and [now[0], now[1]] == was[:2]:
                now[2] = was[2]
            if now != was:
                changes.append(("row", row["at"], was, now))
        said = f"{way} {len(changes)}" + (f" as {label}" if label else "")
        return do(table, Step("decide", said, changes, person, key))


def label_of(table: Table, said: str) -> str:
    """A new label as the classes have it, or a number where there are none."""
    label, classes = str(said).strip(), table.setting("classes", [])
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
        done = _before(table, key)
        if done is not None:
            return done
        changes = [] if cut == table.cut else [("cut", 0, table.cut, cut)]
        return do(table, Step("cut", f"cut at {cut}", changes, person, key))


def mark(table: Table, at: int, wrong: bool, *, person: str = "", key: str | None = None) -> dict[str, Any]:
    """A failure whose own label is wrong leaves the query of the next repair."""
    with table.writing():
        done = _before(table, key)
        if done is not None:
            return done
        was = table.one("select marked from failures where at = ? and part = 'query'", [at])
        if was is None:
            raise BadInput(f"no failure {at!r} was searched with; the request; give the index of one that is shown")
        changes = [] if bool(was) == bool(wrong) else [("mark", at, int(was), int(bool(wrong)))]
        said = f"failure {at}: {'its own label is wrong' if wrong else 'its label is right'}"
        return do(table, Step("mark", said, changes, person, key))


def do(table: Table, step: Step) -> dict[str, Any]:
    """Whole, in one step; what was undone before can then no longer be done again."""
    with table.writing() as sql:
        if not step.changes:
            return {"changed": 0, "indices": []}
        sql.execute("update actions set state = ? where state = ?", [DROPPED, UNDONE])
        action = _record(table, step.kind, step.said, len(step.changes), step.person, DONE, step.key)
        rows = ((action, what, at, json.dumps(a), json.dumps(b)) for what, at, a, b in step.changes)
        sql.executemany("insert into changes values (?, ?, ?, ?, ?)", rows)
        _apply(table, [(what, at, after) for what, at, _, after in step.changes], action)
        return _answer(table, action)


def undo(table: Table, person: str = "", key: str | None = None) -> dict[str, Any]:
    return _turned(table, BACK, person, key)


def redo(table: Table, person: str = "", key: str | None = None) -> dict[str, Any]:
    return _turned(table, FORTH, person, key)


def restore(table: Table, to: int, person: str = "") -> dict[str, Any]:
    """Everything as it was right after a line of the trail, or at first for 0; itself a step that can be undone."""
    with table.writing():
        last = table.one("select coalesce(max(id), 0) from actions")
        if isinstance(to, bool) or not isinstance(to, int) or not 0 <= to <= last:
            raise BadInput(f"there is no line {to!r} in the trail; the request; give one from 0 to {last}")
        then = _at(table, to)
        now = {key: _now(table, *key) for key in then}
        changes = [(what, at, now[what, at], value) for (what, at), value in then.items() if now[what, at] != value]
        return do(table, Step("restore", f"as it was after line {to}", changes, person))


def trail(table: Table, offset: int, limit: int) -> dict[str, Any]:
    """What was done, newest first."""
    rows = table.all("select * from actions order by id desc limit ? offset ?", [limit, offset])
    told = [
        {"id": r["id"], "when": r["moment"], "by": r["person"], "text": r["said"], "n": r["n"], "kind": r["kind"],
         "undone": r["state"] in (UNDONE, DROPPED)}
        for r in rows
    ]  # fmt: skip
    return {"total": table.one("select count(*) from actions"), "rows": told}


def next_words(table: Table) -> dict[str, Any]:
    """What undo and redo would do next."""
    back = table.one("select said from actions where state = ? order by id desc limit 1", [DONE])
    return {"undo": back, "redo": table.one("select said from actions where state = ? order by id limit 1", [UNDONE])}


def tell(table: Table, kind: str, said: str, person: str = "", n: int = 0) -> None:
    """A line of the trail about something that is not undone, such as a repair."""
    with table.writing():
        _record(table, kind, said, n, person, TOLD, None)


def seen(table: Table, positions: Iterable[int]) -> None:
    with table.writing() as sql:
        sql.executemany("update causes set seen = 1 where at = ?", ((int(at),) for at in positions))


def _record(table: Table, kind: str, said: str, n: int, person: str, state: int, key: str | None) -> int:
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    with table.writing() as sql:
        row = sql.execute(
            "insert into actions (moment, person, kind, said, n, key, state) values (?, ?, ?, ?, ?, ?, ?)",
            [moment, person, kind, said, n, key, state],
        )
        table.set("version", table.setting("version", 0) + 1)
        return int(row.lastrowid or 0)


def _before(table: Table, key: str | None) -> dict[str, Any] | None:
    """The answer that a request already had, by its key."""
    action = None if key is None else table.one("select id from actions where key = ?", [key])
    return None if action is None else _answer(table, action)


def _answer(table: Table, action: int) -> dict[str, Any]:
    rows = table.all("select at from changes where action = ? and what = 'row' limit ?", [action, NAMED])
    return {"changed": table.one("select n from actions where id = ?", [action]), "indices": [r[0] for r in rows]}


def _turned(table: Table, way: Turn, person: str, key: str | None) -> dict[str, Any]:
    """Puts back one side of the action that is next in a direction; that is a line of the trail with changes of its
    own."""
    with table.writing() as sql:
        done = _before(table, key)
        if done is not None:
            return done
        action = table.one(f"select {way.next}(id) from actions where state = ?", [way.before])
        if action is None:
            raise NothingThere(way.nothing)
        sql.execute("update actions set state = ? where id = ?", [way.after, action])
        rows = table.all(
            f"select what, at, {way.side} value from changes where action = ? order by rowid {way.order}", [action]
        )
        values = [(r["what"], r["at"], json.loads(r["value"])) for r in rows]
        said = table.one("select said from actions where id = ?", [action])
        line = _record(table, way.kind, f"{way.kind}: {said}", len(rows), person, TOLD, key)
        told = [(line, what, at, json.dumps(_now(table, what, at)), json.dumps(v)) for what, at, v in values]
        sql.executemany("insert into changes values (?, ?, ?, ?, ?)", told)
        _apply(table, values, line)
        return {"done": said, **_answer(table, action)}


def _apply(table: Table, values: Sequence[tuple[str, int, Any]], action: int) -> None:
    rows = [(*value, action, at) for what, at, value in values if what == "row"]
    with table.writing() as sql:
        sql.executemany(
            "update causes set decision = ?, new_label = ?, person = ?, seen = ?, decided = ? where at = ?", rows
        )
        for what, at, value in values:
            if what == "cut":
                table.set("cut", value)
            elif what == "mark":
                sql.execute("update failures set marked = ? where at = ?", [value, at])


def _at(table: Table, to: int) -> dict[tuple[str, int], Any]:
    """Values right after a line of the trail, of all that has changed since."""
    rows = table.all("select what, at, before from changes where action > ? order by rowid desc", [to])
    return {(row["what"], row["at"]): json.loads(row["before"]) for row in rows}


def _now(table: Table, what: str, at: int) -> Any:
    if what == "cut":
        return table.cut
    if what == "mark":
        return table.one("select marked from failures where at = ?", [at])
    return _state(table.all("select * from causes where at = ?", [at])[0])


def _state(row: Any) -> list[Any]:
    return [row["decision"], row["new_label"], row["person"], row["seen"]]


def _with_copies(table: Table, positions: Iterable[int]) -> list[Any]:
    """The rows at these positions and their near copies, each once. BadInput where one is not in the table."""
    wanted = list(dict.fromkeys(positions))
    if any(isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < 2**62 for at in wanted):
        raise BadInput("indices holds something else; the request; give positions in train")
    found: dict[int, Any] = {}
    for start in range(0, len(wanted), CHUNK):
        part = wanted[start : start + CHUNK]
        marks = ", ".join("?" * len(part))
        rows = table.all(
            f"select * from causes where copy in (select copy from causes where at in ({marks})) order by rank", part
        )
        found |= {row["at"]: row for row in rows}
    missing = next((at for at in wanted if at not in found), None)
    if missing is not None:
        raise BadInput(f"index {missing} is not among the causes; the request; give positions that are listed")
    return list(found.values())


def _several(label: str, table: Table) -> str:
    """A list of numbers, as long as those given."""
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
