"""What was done, step by step: each step is recorded, and can be undone, redone or gone back to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from amends.errors import BadInput
from amends.web.table import Table

DONE, UNDONE, DROPPED, RECORDED = range(4)  # states of an action: the last cannot be undone
NAMED = 1000  # rows an answer names at most


@dataclass(frozen=True)
class Step:
    """One thing that was done: a text for the trail, and each value before and after."""

    kind: str
    text: str
    changes: Sequence[tuple[str, int, Any, Any]]  # what (row, cut, mark, result), where, before, after
    person: str = ""
    key: str | None = None


@dataclass(frozen=True)
class Turn:
    """Undo or redo: which action is next, and whether its values before or after are put back."""

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


def do(table: Table, step: Step) -> dict[str, Any]:
    """Makes a step as a whole, and only once for a key. Steps undone before can then no longer be redone."""
    with table.writing() as sql:
        done = _before(table, step.key)
        if done is not None:
            return done
        if not step.changes:
            return {"changed": 0, "indices": []}
        sql.execute("update actions set state = ? where state = ?", [DROPPED, UNDONE])
        action = _record(table, step.kind, step.text, len(step.changes), step.person, DONE, step.key)
        _apply(table, step.changes, action)
        return _answer(table, action)


def turn(table: Table, way: Turn, person: str = "", key: str | None = None) -> dict[str, Any]:
    """Undoes the last action (BACK) or makes the first undone one again (FORTH). This is a new line of the trail, with
    changes of its own."""
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
        text = table.one("select said from actions where id = ?", [action])
        line = _record(table, way.kind, f"{way.kind}: {text}", len(rows), person, RECORDED, key)
        _apply(table, [(what, at, now(table, what, at), json.loads(value)) for what, at, value in rows], line)
        return {"done": text, **_answer(table, action)}


def restore(table: Table, to: int, person: str = "", key: str | None = None) -> dict[str, Any]:
    """Puts everything back as it was right after a line of the trail, or at the start for 0; a step that can be
    undone."""
    with table.writing():
        last = table.one("select coalesce(max(id), 0) from actions")
        if isinstance(to, bool) or not isinstance(to, int) or not 0 <= to <= last:
            raise BadInput(f"there is no line {to!r} in the trail; the request; give one from 0 to {last}")
        rows = table.all("select what, at, before from changes where action > ? order by rowid desc", [to])
        then = {(row["what"], row["at"]): json.loads(row["before"]) for row in rows}
        both = [(what, at, now(table, what, at), value) for (what, at), value in then.items()]
        changes = [change for change in both if change[2] != change[3]]
        return do(table, Step("restore", f"as it was after line {to}", changes, person, key))


def lines(table: Table, offset: int, limit: int) -> dict[str, Any]:
    """What was done, newest first."""
    actions = table.all("select * from actions order by id desc limit ? offset ?", [limit, offset])
    rows = [
        {"id": r["id"], "when": r["moment"], "by": r["person"], "text": r["said"], "n": r["n"], "kind": r["kind"],
         "undone": r["state"] in (UNDONE, DROPPED)}
        for r in actions
    ]  # fmt: skip
    return {"total": table.one("select count(*) from actions"), "rows": rows}


def next_words(table: Table) -> dict[str, Any]:
    """The texts of the steps that undo and redo would take."""
    back = table.one("select said from actions where state = ? order by id desc limit 1", [DONE])
    return {"undo": back, "redo": table.one("select said from actions where state = ? order by id limit 1", [UNDONE])}


def add_line(table: Table, kind: str, text: str, person: str = "", n: int = 0) -> None:
    """Adds a line to the trail about something that cannot be undone, such as a repair."""
    with table.writing():
        _record(table, kind, text, n, person, RECORDED, None)


def now(table: Table, what: str, at: int) -> Any:
    """The value now of a row, the cut, a failure or the result of a repair, as steps hold it."""
    if what == "cut":
        return table.cut
    if what == "mark":
        return table.one("select marked from failures where at = ?", [at])
    if what == "result":
        rows = table.all("select accepted, note, person from results where repair = ?", [at])
        return list(rows[0]) if rows else [None, "", ""]
    return state_of(table.all("select * from causes where at = ?", [at])[0])


def state_of(row: Any) -> list[Any]:
    """The values of a row that can change."""
    return [row["decision"], row["new_label"], row["person"], row["seen"]]


def _record(table: Table, kind: str, text: str, n: int, person: str, state: int, key: str | None) -> int:
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    with table.writing() as sql:
        row = sql.execute(
            "insert into actions (moment, person, kind, said, n, key, state) values (?, ?, ?, ?, ?, ?, ?)",
            [moment, person, kind, text, n, key, state],
        )
        table.set("version", table.setting("version", 0) + 1)
        return int(row.lastrowid or 0)


def _before(table: Table, key: str | None) -> dict[str, Any] | None:
    """The answer to an earlier request with the same key."""
    action = None if key is None else table.one("select id from actions where key = ?", [key])
    return None if action is None else _answer(table, action)


def _answer(table: Table, action: int) -> dict[str, Any]:
    rows = table.all("select at from changes where action = ? and what = 'row' limit ?", [action, NAMED])
    return {"changed": table.one("select n from actions where id = ?", [action]), "indices": [r[0] for r in rows]}


def _apply(table: Table, changes: Sequence[tuple[str, int, Any, Any]], action: int) -> None:
    """Makes the changes, and stores them with a line of the trail."""
    kept = ((action, what, at, json.dumps(before), json.dumps(after)) for what, at, before, after in changes)
    rows = [(*after, action, at) for what, at, _, after in changes if what == "row"]
    with table.writing() as sql:
        sql.executemany("insert into changes values (?, ?, ?, ?, ?)", kept)
        sql.executemany(
            "update causes set decision = ?, new_label = ?, person = ?, seen = ?, decided = ? where at = ?", rows
        )
        for what, at, _, after in changes:
            if what == "cut":
                table.set("cut", after)
            elif what == "mark":
                sql.execute("update failures set marked = ? where at = ?", [after, at])
            elif what == "result":
                sql.execute(
                    "insert or replace into results (repair, accepted, note, person) values (?, ?, ?, ?)", [at, *after]
                )
