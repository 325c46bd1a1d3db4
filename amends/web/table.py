"""The causes, the failures and what was decided about them, in one SQLite file of the run folder."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amends.config.decisions import GONE, KEEP, RELABEL, REMOVE
from amends.errors import BadInput

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
create table if not exists conflicts (failure integer primary key, n integer, causes text);
create table if not exists groups (name text primary key, causes integer);
create table if not exists actions (
  id integer primary key, moment text, person text, kind text, said text, n integer, key text unique,
  state integer not null);
create table if not exists changes (action integer, what text, at integer, before text, after text);
create index if not exists by_action on changes (action);
create table if not exists settings (name text primary key, value text);
create table if not exists jobs (
  number integer primary key, kind text, state text, started real, ended real, pid integer, repair integer,
  person text, marked integer not null default 0);
create table if not exists results (repair integer primary key, accepted integer, note text, person text);
"""


class Missing(BadInput):
    """There is no such row, repair or file."""

    def __init__(self, what: str = "there is no such thing") -> None:
        super().__init__(f"{what}; the request; load the page again")


class Table:
    """One connection, one writer at a time; a change is on disk before it is answered."""

    def __init__(self, run: Path):
        self.run = run
        self.lock = threading.RLock()
        self.filing = threading.RLock()  # for causes.csv; code that needs both locks takes this one first
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
        """A transaction: everything inside is written, or nothing."""
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

    def column(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        """The first value of every row, quick even for very many rows."""
        with self.lock:
            cursor = self.sql.cursor()
            cursor.row_factory = None
            return [value for (value,) in cursor.execute(query, tuple(values))]

    def setting(self, name: str, default: Any = None) -> Any:
        value = self.one("select value from settings where name = ?", [name])
        return default if value is None else json.loads(value)

    def set(self, name: str, value: Any) -> None:
        with self.writing() as sql:
            sql.execute("insert or replace into settings values (?, ?)", [name, json.dumps(value)])

    @property
    def cut(self) -> int:
        return self.setting("cut", 0)


def effective(cut: int) -> str:
    """SQL for what a repair would do with a row: what a person decided, else remove it above the cut."""
    return f"(case when decision <> '' then decision when rank <= {int(cut)} then '{REMOVE}' else '' end)"


def gone(cut: int) -> str:
    return f"({effective(cut)} in ({', '.join(repr(g) for g in GONE)}))"


def disagrees(cut: int) -> str:
    """SQL for whether a person decided otherwise than the tool would."""
    return (
        f"((decision = 'keep' and rank <= {int(cut)}) or (decision = 'remove' and rank > {int(cut)}) "
        "or (decision = 'relabel' and new_label <> suggested))"
    )


def counts(table: Table, cut: int | None = None) -> dict[str, int]:
    """How many rows people decided, and how many would be removed, with this cut or another one. Only rows that are
    decided or seen are visited."""
    cut, total = table.cut if cut is None else cut, table.setting("total", 0)
    rows = table.all(
        f"select decision, count(*) n, sum(rank <= {cut}) above, sum({disagrees(cut)}) odd from causes "
        "where decision > '' group by decision"
    )
    by = {row["decision"]: row["n"] for row in rows}
    decided = sum(by.values())
    above = table.one(f"select count(*) from causes where rank <= {cut}") - sum(row["above"] for row in rows)
    by_decision = {name: by.get(name, 0) for name in (REMOVE, RELABEL, KEEP)}
    return {
        "total": total, "seen": table.one("select count(*) from causes where seen = 1"), **by_decision,
        "undecided": total - decided, "by_cut": above, "removed": by_decision[REMOVE] + by_decision[RELABEL] + above,
        "disagrees": sum(row["odd"] for row in rows),
        "marked": table.one("select count(*) from failures where marked"),
    }  # fmt: skip


def numbers_in(text: Any) -> list[int]:
    """The list in a cell of causes.csv; empty if there is none."""
    try:
        return [j for j in json.loads(text or "[]") if type(j) is int and 0 <= j < 2**62]
    except (ValueError, TypeError):
        return []


def as_cause(row: sqlite3.Row, cut: int) -> dict[str, Any]:
    """A row of the table as the page gets it, without its look and copies."""
    decision = row["decision"]
    return {
        "index": row["at"], "id": row["id"], "rank": row["rank"], "score": row["score"], "given": row["given"],
        "predicted": row["predicted"], "predicted_after": row["predicted_after"], "p_given": row["p_given"],
        "p_given_after": row["p_given_after"], "suggested": row["suggested"], "group": row["grp"],
        "conflicts_with": numbers_in(row["conflicts"]), "decision": decision, "new_label": row["new_label"],
        "by": row["person"], "effective": decision or (REMOVE if row["rank"] <= cut else ""),
        "seen": bool(row["seen"]), "disagreement": row["disagreement"], "own": json.loads(row["own"]),
    }  # fmt: skip
