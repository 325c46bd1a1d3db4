"""Loads the run folder into the table once, column by column, as there may be a hundred thousand rows."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from amends.config.decisions import NEW, REMOVE
from amends.errors import RunMismatch
from amends.runs.run import DONE, Run
from amends.tables.columns import COLUMNS, FAILURES
from amends.web.table import Table, numbers_in

if TYPE_CHECKING:
    import pandas as pd

INDEXES = """
create index if not exists by_place on causes (place);
create index if not exists by_rank on causes (rank, at, copy);
create index if not exists by_spot on causes (spot);
create index if not exists by_copy on causes (copy);
create index if not exists by_decision on causes (decision) where decision > '';
create index if not exists by_seen on causes (at) where seen = 1;
"""  # made when all rows are there, which is quicker
MOST = 500  # names of a filter that are listed
WORDS = ("given", "predicted", "predicted_after", "suggested")


def load(table: Table, run: Run) -> None:
    """Loads the run once, and again if it has gone on since. Decisions made on the page stay."""
    stamp = json.dumps([run.state, run.about["run"].get("made", "")])
    if table.setting("stamp") == stamp:
        return
    frame, first = run.table(), table.setting("stamp") is None
    copies = run.looks.get("copies") or (run.metrics["duplicates"] if run.done else [])
    columns = _columns(frame, copies, _disagreement(run))
    kept = ", ".join(f"{c} = excluded.{c}" for c in columns if c not in ("at", "spot"))
    known = "" if first else f" on conflict (at) do update set {kept}"
    with table.writing() as sql:
        table.set("columns", [str(c) for c in frame.columns])
        table.set("total", len(frame))
        marks = ", ".join("?" * len(columns))
        rows = zip(*columns.values(), strict=True)
        sql.executemany(f"insert into causes ({', '.join(columns)}) values ({marks}){known}", rows)
        sql.executemany("insert or replace into details values (?, ?, ?, ?)", _details(frame, columns["id"]))
        _failures(sql, run)
        _conflicts(sql, columns["at"], frame["conflicts_with"].tolist())
        if first:
            _first_decisions(table, sql, run, frame)
            table.set("written", table.setting("version", 0))
        table.set("names", _names(columns))
        for line in INDEXES.split(";"):
            sql.execute(line)
        table.set("stamp", stamp)


def _columns(frame: pd.DataFrame, groups: Any, disagreement: np.ndarray | None) -> dict[str, list[Any]]:
    """The columns of the table. `spot` is a random order: its first rows are a fair sample of any part of the rows."""
    n, at = len(frame), frame["index"].to_numpy()
    first = {int(i): int(group[0]) for group in groups for i in group}
    rank = _floats(frame["rank"])
    named = [str(i) for i in frame["id"].tolist()] if "id" in frame else [str(i) for i in at.tolist()]
    return {
        "at": at.tolist(), "place": list(range(n)), "id": named,
        "rank": np.where(np.isfinite(rank), rank, np.arange(1, n + 1)).astype(int).tolist(),
        "score": _numbers(frame["score"]), **{c: [str(v) for v in frame[c].tolist()] for c in WORDS},
        "p_given": _numbers(frame["p_given"]), "p_given_after": _numbers(frame["p_given_after"]),
        "grp": [str(g) for g in frame["group"].tolist()] if "group" in frame else [""] * n,
        "copy": [first.get(i, i) for i in at.tolist()],
        "disagreement": [0.0] * n if disagreement is None else disagreement[at].tolist(),
        "spot": np.random.default_rng().permutation(n).tolist(),
    }  # fmt: skip


def _names(columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    """The choices of the filters: groups and labels, the most frequent first, and the range of the scores."""
    counted = {name: Counter(columns[at]) for name, at in (("groups", "grp"), ("given", "given"), ("suggested",) * 2)}
    listed = {
        name: [{"name": word, "n": n} for word, n in sorted(c.items(), key=lambda p: (-p[1], p[0]))[:MOST]]
        for name, c in counted.items()
    }
    scores = [s for s in columns["score"] if s is not None]
    return {**listed, "score": {"low": min(scores, default=None), "high": max(scores, default=None)}}


def _floats(column: Any) -> np.ndarray:
    import pandas as pd

    return np.asarray(pd.to_numeric(column, errors="coerce"), dtype=np.float64)


def _numbers(column: Any) -> list[float | None]:
    """The numbers of a column; None where there is none."""
    values = _floats(column)
    sound = np.isfinite(values)
    return [v if ok else None for v, ok in zip(values.tolist(), sound.tolist(), strict=True)]


def _details(frame: pd.DataFrame, ids: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The failures an example conflicts with, the user's own columns, and all words of a row to search in."""
    own = [str(c) for c in frame.columns if c not in (*COLUMNS, NEW)]
    at, against = frame["index"].tolist(), frame["conflicts_with"].tolist()
    if not own:
        yield from zip(at, against, ["{}"] * len(at), (name.lower() for name in ids), strict=True)
        return
    cells = zip(*(map(str, frame[c].tolist()) for c in own), strict=True)
    for i, conflicts, name, values in zip(at, against, ids, cells, strict=True):
        mine = json.dumps(dict(zip(own, values, strict=True)), ensure_ascii=False)
        yield i, conflicts, mine, " ".join([name, *values]).lower()


def _conflicts(sql: sqlite3.Connection, at: Sequence[int], texts: Sequence[Any]) -> None:
    """Stores for each failure the causes that conflict with it, and for each group searched with how many do."""
    lists = _lists(texts)
    sizes = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    failure = np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=int(sizes.sum()))
    cause = np.repeat(np.asarray(at, dtype=np.int64), sizes)
    order = np.lexsort((cause, failure))
    failure, cause = failure[order], cause[order]
    new = np.ones(len(failure), dtype=bool)  # a failure that a cause names twice counts once
    new[1:] = (np.diff(failure) != 0) | (np.diff(cause) != 0)
    failure, cause = failure[new], cause[new]
    names, starts = np.unique(failure, return_index=True)
    parts = dict(zip(names.tolist(), np.split(cause, starts[1:]), strict=False))
    sql.execute("delete from conflicts")
    sql.execute("delete from groups")
    sql.executemany(
        "insert into conflicts values (?, ?, ?)", ((j, len(c), json.dumps(c.tolist())) for j, c in parts.items())
    )
    by: dict[str, list[np.ndarray]] = {}
    for j, group in sql.execute("select at, grp from failures where part = 'query'").fetchall():
        by.setdefault(group, [np.array([], dtype=np.int64)]).append(parts.get(j, np.array([], dtype=np.int64)))
    counted = ((group, len(np.unique(np.concatenate(some)))) for group, some in by.items())
    sql.executemany("insert into groups values (?, ?)", counted)


def _lists(texts: Sequence[Any]) -> list[list[int]]:
    """All lists in one go; one by one if a cell is not as it was written."""
    try:
        lists = json.loads(f"[{','.join(text or '[]' for text in texts)}]")
    except (TypeError, ValueError):
        lists = []
    fit = len(lists) == len(texts) and all(type(item) is list for item in lists)
    if fit and all(type(j) is int and 0 <= j < 2**62 for j in chain.from_iterable(lists)):
        return lists
    return [numbers_in(text) for text in texts]


def _first_decisions(table: Table, sql: sqlite3.Connection, run: Run, frame: pd.DataFrame) -> None:
    """The decisions in causes.csv. What a repair removed by itself counts as above the cut, not as a decision."""
    labels = frame[NEW].tolist() if NEW in frame else [""] * len(frame)
    wrote = [row for row in zip(frame["decision"].tolist(), labels, frame["index"].tolist(), strict=True) if row[0]]
    rows = wrote
    if run.state == DONE and "picked by a person" not in str(run.about["run"].get("rule", "")):
        ranks = _floats(frame["rank"])[(frame["decision"] == REMOVE).to_numpy()]
        table.set("cut", int(max(ranks[np.isfinite(ranks)], default=0)))
        rows = [row for row in wrote if row[0] != REMOVE]
    sql.executemany("update causes set decision = ?, new_label = ? where at = ?", rows)
    sql.executemany("update causes set wrote = ?, wrote_label = ? where at = ?", wrote)


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
                json.dumps({str(c): str(row[c]) for c in own}, ensure_ascii=False), _row(row.get("row")),
            )
            for row in frame.to_dict("records")
        ),
    )  # fmt: skip


def _row(value: Any) -> int | None:
    try:
        return int(float(value))
    except (TypeError, ValueError):
        return None


def _disagreement(run: Run) -> np.ndarray | None:
    """For each example how far three rankings in the folder differ, from 0 to 1: by the score, by the loss that
    inserting the failures adds, and by the loss itself."""
    for name in ("identified", "rounds/1"):
        path = run.folder / name / "scores.npz"
        if path.exists():
            try:
                with np.load(path, allow_pickle=False) as file:
                    values = [file["scores"], file["raw"], -file["before"]]
            except (OSError, ValueError, KeyError) as e:
                raise RunMismatch(f"damaged ({e}); {path}; make the run again") from None
            shares = np.array([np.argsort(np.argsort(v, kind="stable")) for v in values]) / max(len(values[0]) - 1, 1)
            return shares.max(0) - shares.min(0)
    return None
