"""Tables of the report: groups, classes, calibration, sets to keep, rounds, members."""

from __future__ import annotations

from typing import Any

from amends.errors import many
from amends.report.markup import Html, change, count, folded, join, number, probability, share, table, tag
from amends.report.view import View

MOST = 150  # rows of one table; metrics.json has all
HEAD = ("n", "before", "after", "change (points)", "fixed", "broken", "p")


def by_group(run: View) -> Html:
    rows = sorted(run.metrics["groups"].items(), key=lambda item: -item[1]["n"])
    body = [(run.label(name), *_row(row)) for name, row in rows[:MOST]]
    return _opened(("group", *HEAD), body, "Accuracy on holdout failures by group, true→predicted", len(rows))


def by_class(run: View) -> Html:
    """Accuracy by class, in the order of the matrices; harmed classes are marked."""
    harmed = [str(name) for name in run.metrics["harmed"]]
    order = {str(name): i for i, name in enumerate((run.metrics.get("confusion") or {}).get("classes", ()))}
    rows = sorted(run.metrics["classes"].items(), key=lambda item: (order.get(item[0], len(order)), _order(item[0])))
    body = [
        (
            join([run.label(name), tag("span", " ▼ harmed", class_="harmed") if str(name) in harmed else None]),
            *_row(row),
        )
        for name, row in rows[:MOST]
    ]
    return _opened(("class", *HEAD), body, "Accuracy on holdout and remaining by true class", len(rows))


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        count(row["n"]), share(row["before"]), share(row["after"]), change(row["before"], row["after"]),
        count(row["fixed"]), count(row["broken"]), probability(row["p_value"]),
    )  # fmt: skip


def _order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (10**9, name)


def _opened(head: tuple[str, ...], body: list[tuple[Any, ...]], caption: str, total: int, first: int = 15) -> Html:
    """The first rows open, the others folded, and a note if there are still more."""
    more = (
        tag("p", f"{many(total - len(body), 'more is', 'more are')} in metrics.json.", class_="note")
        if total > len(body)
        else None
    )
    if len(body) <= first + 3:
        return join([table(head, body, caption), more])
    others = folded(f"{len(body) - first} more", table(head, body[first:], f"{caption}, the rest"))
    return join([table(head, body[:first], caption), others, more])


def calibration(run: View) -> Html:
    before, after = (run.metrics["calibration"][when] for when in ("before", "after"))
    rows = [
        ("expected calibration error", number(before["error"]), number(after["error"])),
        ("mean confidence", share(before["confidence"]), share(after["confidence"])),
        ("mean loss, nats", number(before["loss"]), number(after["loss"])),
    ]
    return table(("", "before", "after"), rows, "How far confidence is from accuracy")


def patch(run: View) -> Html:
    """The repair as a small file: how large it is, which layers it moves, and how much of each."""
    description = run.patch
    share_of_weights = "" if description.get("share") is None else f", {share(description['share'])} of the weights"
    words = f"{description['path']}: {count(description['bytes'])} bytes{share_of_weights}."
    if description.get("why"):
        words += f" It is exact: {description['why']}."
    judged = description["judged"]
    words += (
        f" With the patch as it is stored: {judged['verdict']}, overall accuracy {share(judged['overall']['after'])}."
    )
    body = [
        (r["name"], r["kind"] if r["rank"] is None else f"rank {r['rank']}", count(r["weights"]), share(r["changed"]),
         share(r["moved"]))
        for r in description["layers"][:MOST]
    ]  # fmt: skip
    head = ("layer", "stored as", "weights", "changed", "how far")
    return join([tag("p", words), _opened(head, body, "The layers it moves", len(description["layers"]))])


def keep(run: View) -> Html:
    rows = [
        (name, share(r["before"]), share(r["after"]), change(r["before"], r["after"]))
        for name, r in run.metrics["keep"].items()
    ]
    return table(("set", "before", "after", "change (points)"), rows, "Sets whose accuracy must hold")


def rounds(run: View) -> Html:
    rows = [
        (", ".join(run.label(g) for g in r["groups"]), r["verdict"], f"{count(r['fixed'])} of {count(r['n'])}",
         count(r["removed"]), "yes" if r["learned"] else "no", probability(r["p_value"]), r["reason"])
        for r in run.metrics["rounds"]
    ]  # fmt: skip
    head = ("groups", "verdict", "fixed", "removed", "learned", "p", "reason")
    return table(head, rows, "Groups repaired one after the other", words=(0, 1, 6))


def members(run: View) -> Html:
    """The members of the committee, and the weight of each."""
    refused = any(r.get("refused") for r in run.members)
    rows = [(r["name"], share(r["found"]), number(r["unseen"]), share(r["weight"]), r.get("refused") or "")
            for r in run.members]  # fmt: skip
    head = ("member", "found: share of train above right labels", "probability of labels it did not use", "weight",
            "why it was left out")  # fmt: skip
    rows, head = [row[: 5 if refused else 4] for row in rows], head[: 5 if refused else 4]
    return table(head, rows, "What scored the training examples", words=(0, 4))
