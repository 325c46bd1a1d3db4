"""Which causes a page shows, and in which order: filters and places come in, SQL and rows go out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any

from amends.config.decisions import KEEP, RELABEL, REMOVE
from amends.errors import BadInput, nearest
from amends.web.table import Table, as_cause, disagrees

MOST = 200  # rows of one page
ORDERS = {
    "rank": "rank, at", "worth": "worth, rank, at", "spot": "spot, at", "score": "score desc, at",
    "id": "id, at", "given": "given, rank, at", "suggested": "suggested, rank, at", "group": "grp, rank, at",
    "p_given": "p_given, at", "decided": "decided desc, rank, at",
}  # fmt: skip
EXACT = {"group": "grp", "given": "given", "suggested": "suggested", "predicted": "predicted"}
DECISIONS = (REMOVE, RELABEL, KEEP, "none", "decided", "cut")
FILTERS = (*EXACT, "decision", "seen", "low", "high", "disagrees", "differs", "text", "id", "failure", "copies")
PAGING = ("offset", "limit", "order", "down")


@dataclass(frozen=True)
class Listing:
    """A request for causes, as a condition and an order of SQL."""

    where: str
    values: tuple[Any, ...]
    order: str

    @classmethod
    def of(cls, params: Mapping[str, Any], cut: int) -> Listing:
        for name in params:
            if name not in (*FILTERS, *PAGING):
                raise BadInput(f"no filter {name!r}; the list of causes; {nearest(name, FILTERS)}")
        parts: list[tuple[str, tuple[Any, ...]]] = [
            (f"{column} = ?", (str(params[name]),)) for name, column in EXACT.items() if params.get(name) is not None
        ]
        parts += _plain(params, cut)
        parts += _lookups(params)
        if params.get("copies") != "all":
            parts.append(("copy = at", ()))
        where = " and ".join(f"({condition})" for condition, _ in parts) or "1"
        return cls(where, tuple(v for _, values in parts for v in values), _order(params))

    def count(self, table: Table) -> int:
        if self.where == "1":
            return table.setting("total", 0)
        return table.one(f"select count(*) from causes where {self.where}", self.values)

    def rows(self, table: Table, offset: int, limit: int) -> list[dict[str, Any]]:
        """At most `limit` rows from a place of the list on, with their copies."""
        rows = table.all(
            f"select causes.*, details.conflicts, details.own from causes join details using (at) where at in "
            f"(select at from causes where {self.where} order by {self.order} limit ? offset ?) order by {self.order}",
            (*self.values, limit, offset),
        )
        cut = table.cut
        return [as_cause(row, cut) | {"copies": copies(table, row["at"], row["copy"])} for row in rows]

    def positions(self, table: Table, between: tuple[int, int] | None = None) -> list[int]:
        """Positions in train: of the whole list, or between two places of it, both ends included."""
        first, last = (0, -2) if between is None else (min(between), max(between))
        return table.column(
            f"select at from causes where {self.where} order by {self.order} limit ? offset ?",
            (*self.values, last - first + 1, first),
        )

    def place(self, table: Table, at: int) -> int | None:
        query = f"select at, row_number() over (order by {self.order}) - 1 place from causes where {self.where}"
        return table.one(f"select place from ({query}) where at = ?", (*self.values, at))


def cause(table: Table, at: int) -> dict[str, Any] | None:
    rows = table.all(
        "select causes.*, details.conflicts, details.own from causes join details using (at) where at = ?", [at]
    )
    if not rows:
        return None
    return as_cause(rows[0], table.cut) | {"copies": copies(table, at, rows[0]["copy"])}


def copies(table: Table, at: int, copy: int) -> list[int]:
    """The other near copies of an example."""
    return table.column("select at from causes where copy = ? and at <> ? order by rank", (copy, at))


def page_of(params: Mapping[str, Any]) -> tuple[int, int]:
    """Offset and limit; BadInput if they cannot be used."""
    try:
        offset, limit = int(params.get("offset", 0)), int(params.get("limit", 50))
    except ValueError:
        raise BadInput("offset and limit count rows; the list; give whole numbers") from None
    if not 0 <= offset < 2**62 or not 1 <= limit <= MOST:
        raise BadInput(f"offset is {offset} and limit {limit}; the list; at most {MOST} rows are shown at once")
    return offset, limit


def _plain(params: Mapping[str, Any], cut: int) -> list[tuple[str, tuple[Any, ...]]]:
    """Conditions on what is decided, seen and scored."""
    parts: list[tuple[str, tuple[Any, ...]]] = []
    decision = params.get("decision")
    if decision is not None:
        if decision not in DECISIONS:
            raise BadInput(f"decision is {decision!r}; the filter; {nearest(decision, DECISIONS)}")
        special = {"none": "decision = ''", "decided": "decision > ''", "cut": f"decision = '' and rank <= {cut}"}
        parts.append((special[decision], ()) if decision in special else ("decision = ?", (decision,)))
    for name, condition in (("seen", "seen = 1"), ("disagrees", disagrees(cut)), ("differs", "suggested <> given")):
        if params.get(name) is not None:
            parts.append((condition if _yes(name, params[name]) else f"not ({condition})", ()))
    for name, sign in (("low", ">="), ("high", "<=")):
        if params.get(name) not in (None, ""):
            try:
                parts.append((f"score {sign} ?", (float(params[name]),)))
            except (TypeError, ValueError):
                raise BadInput(f"{name} is {params[name]!r}; the filter; give a number") from None
    return parts


def _lookups(params: Mapping[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """Conditions that look something up: words, ids, failures."""
    parts: list[tuple[str, tuple[Any, ...]]] = []
    if params.get("text"):
        parts.append(("at in (select at from details where instr(words, ?))", (str(params["text"]).lower(),)))
    if params.get("id") not in (None, ""):
        text = str(params["id"])
        whole = text.isascii() and text.isdigit() and len(text) < 18
        parts.append(("id = ? or at = ?", (text, int(text) if whole else -1)))
    if params.get("failure") not in (None, ""):
        text = str(params["failure"])
        if not (text.isascii() and text.isdigit() and len(text) < 18):
            raise BadInput(f"failure is {text!r}; the filter; give its index")
        parts.append(("at in (select value from conflicts, json_each(causes) where failure = ?)", (int(text),)))
    return parts


def _order(params: Mapping[str, Any]) -> str:
    name = params.get("order") or "rank"
    if name not in ORDERS:
        raise BadInput(f"no order {name!r}; the list of causes; {nearest(name, ORDERS)}")
    if str(params.get("down", "0")) not in ("1", "true", "True"):
        return ORDERS[name]
    turned = (p.removesuffix(" desc") if p.endswith(" desc") else f"{p} desc" for p in ORDERS[name].split(", "))
    return ", ".join(turned)


def _yes(name: str, value: Any) -> bool:
    if value not in ("yes", "no"):
        raise BadInput(f"{name} is {value!r}; the filter; give yes or no")
    return value == "yes"


def failures(table: Table, params: Mapping[str, Any]) -> dict[str, Any]:
    """The failures searched with, each with the number of causes that conflict with it: the largest group first, and
    within a group the most causes first."""
    offset, limit = page_of(params)
    where, values = ["part = 'query'"], []
    if params.get("group") is not None:
        where.append("grp = ?")
        values.append(str(params["group"]))
    where += [f"{name} = 1" for name in ("marked", "suspect") if params.get(name) == "yes"]
    condition = " and ".join(where)
    groups = table.all(
        "select grp name, count(*) n, sum(suspect) suspects, sum(marked) marked, (select causes from groups "
        "where name = grp) causes "
        "from failures where part = 'query' group by grp order by n desc, grp"
    )
    rows = table.all(
        f"select failures.* from failures join (select grp as name, count(*) n from failures where part = 'query' "
        f"group by grp) on name = grp left join (select failure, n as causes from conflicts) on failure = at "
        f"where {condition} order by n desc, grp, coalesce(causes, 0) desc, at limit ? offset ?",
        (*values, limit, offset),
    )  # fmt: skip
    total = table.one(f"select count(*) from failures where {condition}", values)
    return {"groups": [dict(g) for g in groups], "total": total, "offset": offset,
            "rows": [as_failure(table, row) for row in rows]}  # fmt: skip


def failure(table: Table, at: int) -> dict[str, Any] | None:
    rows = table.all("select * from failures where at = ?", [at])
    return as_failure(table, rows[0]) if rows else None


def as_failure(table: Table, row: Row) -> dict[str, Any]:
    n = table.one("select n from conflicts where failure = ?", [row["at"]]) or 0
    return {
        "index": row["at"], "id": row["id"], "group": row["grp"], "suspect": bool(row["suspect"]),
        "marked": bool(row["marked"]), "label": row["given"], "predicted": row["predicted"],
        "predicted_after": row["predicted_after"], "causes": n, "own": json.loads(row["own"]),
    }  # fmt: skip
