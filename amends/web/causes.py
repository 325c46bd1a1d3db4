"""causes.csv, shared with other tools: written after every change here, and read in again after every change there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from amends.config.decisions import GONE, KEEP, NEW, RELABEL, words
from amends.errors import AmendsError, BadInput
from amends.runs.disk import flush_file, on_disk
from amends.runs.files import read_table
from amends.runs.run import Run
from amends.tables.cells import write_rows
from amends.tables.columns import COLUMNS
from amends.web.decisions import label_of
from amends.web.table import FOLDER, Table, effective
from amends.web.trail import Step, do

FILE = "causes.csv"
CHUNK = 2000  # rows that are read at once


def write(table: Table) -> bool:
    """Writes the file as the decisions are now, whole or not at all; not if another tool has changed it. Somebody who
    decides meanwhile does not wait: the file is then written once more."""
    with table.filing:
        return _written(table)


def _written(table: Table) -> bool:
    path, part = table.run / FILE, table.run / FOLDER / "causes.part"
    with table.lock:
        if changed(table):
            return False
        version = table.setting("version", 0)
        if table.setting("written") == version:
            return True
        columns = _columns(table)
    new: list[tuple[str, str, int]] = []  # rows whose decision changes in the file
    with on_disk(path):
        write_rows(_rows(table, columns, new), part, columns)
        flush_file(part)
        if path.exists():
            part.chmod(path.stat().st_mode & 0o777)
    with table.writing() as sql, on_disk(path):
        if changed(table):
            return False
        os.replace(part, path)
        sql.executemany("update causes set wrote = ?, wrote_label = ? where at = ?", new)
        table.set("written", version)
        table.set("file", _stamp(table))
    return True


def _columns(table: Table) -> list[str]:
    """The columns of the file, and one for new labels as soon as there are any."""
    columns = table.setting("columns")
    if NEW not in columns and table.one("select 1 from causes where decision = ? limit 1", [RELABEL]):
        at = columns.index("decision") + 1
        columns = [*columns[:at], NEW, *columns[at:]]
        table.set("columns", columns)
    return columns


def changed(table: Table) -> bool:
    """Whether another tool has changed the file since it was written or read here."""
    return table.setting("file") != _stamp(table)


def read_now(table: Table) -> None:
    """Marks the file as it is now as read."""
    table.set("file", _stamp(table))


def take_in(table: Table) -> None:
    """Takes in what another tool changed in the file, as one step that can be undone; other rows stay as they are here.
    A file that cannot be used is left as it is, and the page says why."""
    with table.filing:
        _taken_in(table)


def _taken_in(table: Table) -> None:
    stamp, when = _stamp(table), datetime.now(UTC).isoformat(timespec="seconds")
    try:
        frame = Run.open(table.run).table()
        decisions, labels = words(frame, "decision"), words(frame, NEW)
        theirs = {int(i): (str(s), str(n)) for i, s, n in zip(frame["index"], decisions, labels, strict=True)}
        with table.lock:
            changes = _changes(table, theirs)
            step = Step("file", f"{len(changes)} decisions taken in from {FILE}", changes, FILE)
            with table.writing() as sql:
                _others(table, frame)
                if changes:
                    do(table, step)
                    table.set("told", {"when": when, "n": len(changes), "text": step.text, "error": None})
                elif (table.setting("told") or {}).get("error"):
                    table.set("told", None)
                now = effective(table.cut)
                sql.execute(f"update causes set wrote = {now}, wrote_label = new_label where wrote <> {now} "
                            "or wrote_label <> new_label")  # fmt: skip
                table.set("file", stamp)
    except AmendsError as e:
        say_trouble(table, str(e))


def say_trouble(table: Table, error: str) -> None:
    """Shows once on every page why the file cannot be read or written."""
    with table.writing():
        if (table.setting("told") or {}).get("error") != error:
            when = datetime.now(UTC).isoformat(timespec="seconds")
            table.set("told", {"when": when, "n": 0, "text": f"{FILE} cannot be used", "error": error})
            table.set("version", table.setting("version", 0) + 1)


def upload(table: Table, body: bytes, person: str) -> dict[str, Any]:
    """Takes in the decisions of an uploaded CSV as one step. It has a column `index` or `id`, `decision`, perhaps
    `new_label`. Other rows stay as they are."""
    path = table.run / FOLDER / "upload.part"
    with on_disk(path):
        path.write_bytes(body)
    try:
        frame = read_table(path, ("decision",), dtype=str, keep_default_na=False)
    except AmendsError as e:
        raise BadInput(str(e).replace(str(path), "the upload").replace(path.name, "the upload")) from None
    finally:
        path.unlink(missing_ok=True)
    at = _positions(table, frame)
    pairs = zip(at, words(frame, "decision"), words(frame, NEW), strict=True)
    theirs: dict[int, tuple[str, str]] = {}
    for place, decision, label in pairs:
        if theirs.setdefault(place, (str(decision), str(label))) != (str(decision), str(label)):
            raise BadInput(f"two rows decide about one example; the upload at index {place}; keep one of them")
    with table.writing():
        changes = _changes(table, theirs, whole=True, person=person)
        return do(table, Step("upload", f"{len(changes)} decisions from an upload", changes, person))


def _positions(table: Table, frame: Any) -> list[int]:
    """The positions in train of the rows of an upload."""
    column = next((c for c in ("index", "id") if c in frame), None)
    if column is None:
        raise BadInput("there is no column index or id; the upload; add one of them")
    by = "at" if column == "index" else "id"
    positions = []
    for line, value in enumerate(frame[column], start=2):
        rows = table.all(f"select at from causes where {by} = ? limit 2", [str(value).strip()])
        if len(rows) != 1:
            what = "several causes have" if rows else "no cause has"
            raise BadInput(f"{what} the {column} {str(value)!r}; the upload line {line}; correct it or leave it out")
        positions.append(rows[0][0])
    return positions


def _changes(table: Table, theirs: dict[int, tuple[str, str]], whole: bool = False, person: str = FILE) -> list[Any]:
    """The changes in `theirs` against what was last written to the file, or with `whole` against what is decided now. A
    row above the cut that lost its `remove` is kept."""
    changes = []
    for row in table.all("select at, rank, decision, new_label, person, seen, wrote, wrote_label, id from causes"):
        decided = theirs.get(row["at"])
        if decided is None or (not whole and decided == (row["wrote"], row["wrote_label"])):
            continue
        word, label = decided
        if word not in ("", KEEP, *GONE):
            where = f"at index {row['at']}"
            raise BadInput(f"decision is {word!r}; {FILE} {where}; write remove, keep, relabel or nothing")
        label = label_of(table, label) if word == RELABEL else ""
        if not word and row["rank"] <= table.cut and not whole:
            word = KEEP
        was, now = [row["decision"], row["new_label"], row["person"], row["seen"]], [word, label, person, row["seen"]]
        if now[:2] != was[:2]:
            changes.append(("row", row["at"], was, now))
    return changes


def _others(table: Table, frame: Any) -> None:
    """Stores the user's own columns, such as a note, as they are in the file now."""
    own = [str(c) for c in frame.columns if c not in (*COLUMNS, NEW)]
    table.set("columns", [str(c) for c in frame.columns])
    rows = []
    for i, *values in zip(frame["index"], *(frame[c] for c in own), strict=True):
        rows.append((json.dumps(dict(zip(own, map(str, values), strict=True)), ensure_ascii=False), int(i)))
    with table.writing() as sql:
        sql.executemany("update details set own = ? where at = ? and own <> ?", ((o, i, o) for o, i in rows))


def _rows(table: Table, columns: list[str], new: list[tuple[str, str, int]]) -> Iterator[list[Any]]:
    """The rows in the order of the file; the decision is what a repair would do now. Rows whose decision changes are
    added to `new`."""
    named = {"index": "at", "group": "grp", "conflicts_with": "conflicts"}
    ours = [c for c in columns if c in (*COLUMNS, NEW)]
    last = table.one("select max(place) from causes")
    for start in range(0, (-1 if last is None else last) + 1, CHUNK):
        with table.lock:
            selected = ", ".join(effective(table.cut) if c == "decision" else named.get(c, c) for c in ours)
            rows = table.all(
                f"select at, own, wrote, wrote_label, {selected} from causes join details using (at) "
                "where place >= ? and place < ? order by place", [start, start + CHUNK],
            )  # fmt: skip
        for at, own, wrote, wrote_label, *values in rows:
            mine, known = json.loads(own), dict(zip(ours, values, strict=True))
            decided = (known["decision"], known.get(NEW, ""))
            if decided != (wrote, wrote_label):
                new.append((*decided, at))
            yield ["" if v is None else v for v in (known[c] if c in known else mine.get(c, "") for c in columns)]


def _stamp(table: Table) -> list[int] | None:
    try:
        stat = (table.run / FILE).stat()
    except FileNotFoundError:
        return None
    return [stat.st_mtime_ns, stat.st_size, stat.st_ino]
