"""The causes, the failures and what was decided about them, in one SQLite file of the run folder."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from amends.config.decisions import GONE, KEEP, NEW, RELABEL, REMOVE, words
from amends.errors import BadInput, RunMismatch
from amends.runs.run import DONE, Run
from amends.tables.columns import COLUMNS, FAILURES

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "review"  # in the run folder
SCHEMA = """
create table if not exists causes (
  at integer primary key, place integer, id text, rank integer, score real, given text, predicted text,
  predicted_after text, p_given real, p_given_after real, suggested text, grp text, copy integer,
  disagreement real, spot integer, worth integer not null default 0,
  decision text not null default '', new_label text not null default '', person text not null default '',
  decided integer not null default 0, seen integer not null default 0,
  wrote text not null default '', wrote_label text not null default '');
create table if not exists details (at integer primary key, conflicts text, own text, words text);
create table if not exists failures (
  at integer primary key, id text, part text, grp text, suspect integer, given text, predicted text,
  predicted_after text, own text, row integer, marked integer not null default 0);
create table if not exists conflicts (failure integer, cause integer, primary key (failure, cause)) without rowid;
create table if not exists actions (
  id integer primary key, moment text, person text, kind text, said text, n integer, key text unique,
  state integer not null);
create table if not exists changes (action integer, what text, at integer, before text, after text);
create index if not exists by_action on changes (action);
create table if not exists settings (name text primary key, value text);
create table if not exists jobs (
  number integer primary key, kind text, state text, started real, ended real, pid integer, repair integer,
  person text, marked integer not null default 0);
create table if not exists results (repair integer primary key, accepted integer, note text, person text, moment text);
"""
INDEXES = """
create index if not exists by_place on causes (place);
create index if not exists by_rank on causes (rank);
create index if not exists by_spot on causes (spot);
create index if not exists by_worth on causes (worth);
create index if not exists by_copy on causes (copy);
create index if not exists by_decision on causes (decision);
create index if not exists by_seen on causes (at) where seen = 1;
"""  # made once all rows are there, which is quicker
SHOWN = ("given", "predicted", "predicted_after", "suggested", "p_given", "p_given_after")
STATIC = (
    "place", "id", "rank", "score", "given", "predicted", "predicted_after", "p_given", "p_given_after", "suggested",
    "grp", "copy", "disagreement",
)  # fmt: skip


class Missing(BadInput):
    """There is no such row, repair or file."""

    def __init__(self, what: str = "there is no such thing") -> None:
        super().__init__(f"{what}; the request; load the page again")


class Table:
    """One connection, one writer at a time; a change is on the disk when it is answered."""

    def __init__(self, run: Path):
        self.run = run
        self.lock = threading.RLock()
        self.filing = threading.RLock()  # of causes.csv; whoever needs both takes this one first
        self.sql = sqlite3.connect(run / FOLDER / "decisions.sqlite", check_same_thread=False, isolation_level=None)
        self.sql.row_factory = sqlite3.Row
        for line in ("locking_mode=exclusive", "journal_mode=wal", "synchronous=full", "cache_size=-16000"):
            self.sql.execute(f"pragma {line}")
        self.sql.executescript(SCHEMA)

    def close(self) -> None:
        with self.lock:
            self.sql.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All of what is done inside, or nothing of it."""
        with self.lock:
            if self.sql.in_transaction:
                yield self.sql
                return
            self.sql.execute("begin immediate")
            try:
                yield self.sql
                self.sql.execute("commit")
            except BaseException:
                self.sql.execute("rollback")
                raise

    def all(self, query: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        with self.lock:
            return self.sql.execute(query, tuple(values)).fetchall()

    def one(self, query: str, values: Iterable[Any] = ()) -> Any:
        """The first value of the first row; None where there is none."""
        rows = self.all(query, values)
        return rows[0][0] if rows else None

    def setting(self, name: str, default: Any = None) -> Any:
        kept = self.one("select value from settings where name = ?", [name])
        return default if kept is None else json.loads(kept)

    def set(self, name: str, value: Any) -> None:
        with self.writing() as sql:
            sql.execute("insert or replace into settings values (?, ?)", [name, json.dumps(value)])

    @property
    def cut(self) -> int:
        return self.setting("cut", 0)


def load(table: Table, run: Run) -> None:
    """What the run folder holds, read once; again where the run has gone on since. Decisions that were made on the
    page stay."""
    stamp = json.dumps([run.state, run.about["run"].get("made", "")])
    if table.setting("stamp") == stamp:
        return
    frame, looks = run.table(), run.looks
    first = table.setting("stamp") is None
    against = [_list(text) for text in frame["conflicts_with"].tolist()]
    copies = looks.get("copies") or (run.metrics["duplicates"] if run.done else [])
    with table.writing() as sql:
        table.set("columns", [str(c) for c in frame.columns])
        table.set("total", len(frame))
        names, marks = ", ".join(("at", *STATIC, "spot")), ", ".join("?" * (len(STATIC) + 2))
        kept = ", ".join(f"{c} = excluded.{c}" for c in STATIC)
        rows = _rows(frame, copies, _disagreement(run))
        sql.executemany(f"insert into causes ({names}) values ({marks}) on conflict (at) do update set {kept}", rows)
        sql.executemany("insert or replace into details values (?, ?, ?, ?)", _details(frame, against))
        sql.execute("delete from conflicts")
        pairs = sorted({(j, at) for at, found in zip(frame["index"].tolist(), against, strict=True) for j in found})
        sql.executemany("insert into conflicts values (?, ?)", pairs)
        _failures(sql, run)
        if first:
            _first_decisions(table, sql, run, frame)
            table.set("written", table.setting("version", 0))
        for line in INDEXES.split(";"):
            sql.execute(line)
        table.set("stamp", stamp)


def _rows(frame: pd.DataFrame, groups: Any, disagreement: np.ndarray | None) -> Iterator[tuple[Any, ...]]:
    """Each with a place in a random order: those first in it are a fair sample of any part of the rows."""
    first = {int(i): int(group[0]) for group in groups for i in group}
    named = frame["group"].tolist() if "group" in frame else [""] * len(frame)
    spots = np.random.default_rng().permutation(len(frame)).tolist()
    shown = (frame[c].tolist() for c in ("rank", "score", *SHOWN))
    columns = zip(frame["index"].tolist(), _ids(frame), *shown, named, spots, strict=True)
    for place, (at, name, rank, score, *said, p, q, group, spot) in enumerate(columns):
        yield (
            at, place, name, _int(rank, place + 1), _number(score), *map(str, said[:3]), _number(p), _number(q),
            str(said[3]), str(group), first.get(at, at), 0.0 if disagreement is None else float(disagreement[at]), spot,
        )  # fmt: skip


def _ids(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in (frame["id"] if "id" in frame else frame["index"]).tolist()]


def _details(frame: pd.DataFrame, against: list[list[int]]) -> Iterator[tuple[Any, ...]]:
    """The user's own columns, and all words of a row to search in."""
    own = [str(c) for c in frame.columns if c not in (*COLUMNS, NEW)]
    cells = zip(*(map(str, frame[c].tolist()) for c in own), strict=True) if own else ((),) * len(frame)
    for at, name, found, values in zip(frame["index"].tolist(), _ids(frame), against, cells, strict=True):
        mine = dict(zip(own, values, strict=True))
        yield at, json.dumps(found), json.dumps(mine, ensure_ascii=False), " ".join([name, *values]).lower()


def _first_decisions(table: Table, sql: sqlite3.Connection, run: Run, frame: pd.DataFrame) -> None:
    """As causes.csv has them. What a repair removed by itself counts as above the cut, not as decided by a person."""
    said, labels = words(frame, "decision"), words(frame, NEW)
    by_person = "picked by a person" in str(run.about["run"].get("rule", ""))
    if run.state == DONE and not by_person:
        gone = [_int(r, 0) for r, s in zip(frame["rank"], said, strict=True) if s == REMOVE]
        table.set("cut", max(gone, default=0))
        said = np.where(said == REMOVE, "", said)
    rows = [(str(s), str(n), int(i)) for i, s, n in zip(frame["index"], said, labels, strict=True) if s]
    sql.executemany("update causes set decision = ?, new_label = ? where at = ?", rows)
    wrote = [(str(s), str(n), int(i)) for i, s, n in zip(frame["index"], words(frame, "decision"), labels, strict=True)]
    sql.executemany("update causes set wrote = ?, wrote_label = ? where at = ?", (w for w in wrote if w[0]))


def _failures(sql: sqlite3.Connection, run: Run) -> None:
    frame = run.failures()
    own = [c for c in frame.columns if c not in FAILURES]
    sql.executemany(
        "insert into failures (at, id, part, grp, suspect, given, predicted, predicted_after, own, row) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (at) do update set given = excluded.given, "
        "predicted = excluded.predicted, predicted_after = excluded.predicted_after, suspect = excluded.suspect",
        (
            (
                int(row["index"]), str(row["id"]), row["part"], row["group"], row.get("suspect") == "yes",
                row.get("given"), row.get("predicted"), row.get("predicted_after"),
                json.dumps({str(c): str(row[c]) for c in own}, ensure_ascii=False), _int(row.get("row"), None),
            )
            for row in frame.to_dict("records")
        ),
    )  # fmt: skip


def _disagreement(run: Run) -> np.ndarray | None:
    """How far the rankings that the folder holds are apart on each example, from 0 to 1: by the score, by what it
    lost when the failures were inserted, and by its loss."""
    for name in ("identified", "rounds/1"):
        path = run.folder / name / "scores.npz"
        if path.exists():
            try:
                with np.load(path, allow_pickle=False) as kept:
                    values = [kept["scores"], kept["raw"], -kept["before"]]
            except (OSError, ValueError, KeyError) as e:
                raise RunMismatch(f"damaged ({e}); {path}; make the run again") from None
            shares = np.array([np.argsort(np.argsort(v, kind="stable")) for v in values]) / max(len(values[0]) - 1, 1)
            return shares.max(0) - shares.min(0)
    return None


def effective(cut: int) -> str:
    """What a repair would do with a row, as SQL: as a person decided, else remove above the cut."""
    return f"(case when decision <> '' then decision when rank <= {int(cut)} then '{REMOVE}' else '' end)"


def gone(cut: int) -> str:
    return f"({effective(cut)} in ({', '.join(repr(g) for g in GONE)}))"


def disagrees(cut: int) -> str:
    """Decided other than the tool would, as SQL."""
    return (
        f"((decision = 'keep' and rank <= {int(cut)}) or (decision = 'remove' and rank > {int(cut)}) "
        "or (decision = 'relabel' and new_label <> suggested))"
    )


def counts(table: Table, cut: int | None = None) -> dict[str, int]:
    """What people decided, and what would be removed, by the cut or by another one. Only rows that are decided or
    seen are visited."""
    cut, total = table.cut if cut is None else cut, table.setting("total", 0)
    rows = table.all(
        f"select decision, count(*) n, sum(rank <= {cut}) above, sum({disagrees(cut)}) odd from causes "
        "where decision > '' group by decision"
    )
    by = {row["decision"]: row["n"] for row in rows}
    decided = sum(by.values())
    above = table.one(f"select count(*) from causes where rank <= {cut}") - sum(row["above"] for row in rows)
    found = {name: by.get(name, 0) for name in (REMOVE, RELABEL, KEEP)}
    return {
        "total": total, "seen": table.one("select count(*) from causes where seen = 1"), **found,
        "undecided": total - decided, "by_cut": above, "removed": found[REMOVE] + found[RELABEL] + above,
        "disagrees": sum(row["odd"] for row in rows),
        "marked": table.one("select count(*) from failures where marked"),
    }  # fmt: skip


def _list(text: Any) -> list[int]:
    try:
        return [int(j) for j in json.loads(text or "[]")] if not isinstance(text, list) else text
    except (ValueError, TypeError):
        return []


def _int(value: Any, missing: Any) -> Any:
    try:
        return int(float(value))
    except (TypeError, ValueError):
        return missing


def _number(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if np.isfinite(found) else None


def as_cause(row: sqlite3.Row, cut: int) -> dict[str, Any]:
    """A row of the table as the page gets it, without its look and copies."""
    decision = row["decision"]
    return {
        "index": row["at"], "id": row["id"], "rank": row["rank"], "score": row["score"], "given": row["given"],
        "predicted": row["predicted"], "predicted_after": row["predicted_after"], "p_given": row["p_given"],
        "p_given_after": row["p_given_after"], "suggested": row["suggested"], "group": row["grp"],
        "conflicts_with": json.loads(row["conflicts"]), "decision": decision, "new_label": row["new_label"],
        "by": row["person"], "effective": decision or (REMOVE if row["rank"] <= cut else ""),
        "seen": bool(row["seen"]), "disagreement": row["disagreement"], "own": json.loads(row["own"]),
    }  # fmt: skip
