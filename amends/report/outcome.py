"""The outcome of a repair: the verdict, accuracy before and after, and the curve it was chosen on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amends.errors import many
from amends.evaluation.words import OVER, forgetting_alone, judged_on, of
from amends.report.charts import chosen_by, curve, dumbbell, legend, scale_of_shares
from amends.report.markup import Html, change, count, folded, join, probability, share, span, table, tag

GLYPHS = {
    "repaired": "M8 16.5l5.2 5.2L24.5 10.4",
    "partly repaired": "M16 5a11 11 0 0 1 0 22z",
    "not repaired": "M9.5 16h13",
    "identified": "M16 16m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
}


def glyph(verdict: str) -> Html:
    """A sign for the verdict that is readable without colour."""
    ring, path = tag("circle", cx=16, cy=16, r=14), tag("path", d=GLYPHS.get(verdict, ""))
    return tag("svg", ring, path, viewBox="0 0 32 32", class_=f"glyph {verdict.split()[0]}", aria_hidden="true")


def verdict(metrics: dict[str, Any], heading: str = "h1") -> Html:
    word, reason = metrics["verdict"], metrics["reason"]
    words = tag("p", sentence(reason), class_="reason")
    untouched = None
    if word == "not repaired":
        untouched = tag("p", "The model is returned unchanged, and nothing is removed.", class_="reason")
    offer = tag("p", sentence(metrics["offer"]), class_="reason") if metrics.get("offer") else None
    less = f"with budget {metrics.get('budget')}, {metrics.get('left_out')}"
    left_out = tag("p", sentence(less), class_="reason") if metrics.get("left_out") else None
    body = tag("div", tag(heading, word.capitalize()), words, untouched, offer, left_out)
    return tag("div", glyph(word), body, class_="verdict")


def warnings(lines: Sequence[str], heading: str = "h2") -> Html | None:
    """The warnings as a list; each line has three parts: what, where, what to do."""
    if not lines:
        return None
    items = []
    for line in lines:
        what, *more = str(line).split("; ")
        where = tag("code", f" {more[0]}") if len(more) > 1 else None
        items.append(tag("li", sentence(what), " ", tag("span", sentence(more[-1]), where) if more else None))
    return tag(
        "aside", tag(heading, "Warning" if len(items) == 1 else "Warnings"), tag("ul", *items), class_="warnings"
    )


def figures(metrics: dict[str, Any], trained: int | None) -> Html:
    """The four numbers to look at first."""
    judged = judged_on(metrics)
    rest, whole = metrics["remaining"], metrics["overall"]
    fixed = f": {count(metrics['fixed'])} fixed" if judged == "holdout" else ""
    tiles = [
        (share(metrics[judged]["after"]), f"accuracy on {many(metrics[judged]['n'], f'{judged} failure')}{fixed}"),
        ("not judged" if rest is None else count(metrics["newly_broken"]),
         "no remaining examples were given" if rest is None
         else f"of {many(rest['n'], 'example that was', 'examples that were')} right are newly broken"),
        (f"{share(whole['before'])} → {share(whole['after'])}",
         f"overall accuracy before and after, {OVER['overall']}"),
        (count(metrics["removed"]), f"{'' if trained is None else f'of {count(trained)} '}training examples removed"),
    ]  # fmt: skip
    return tag("ul", *(tag("li", tag("b", value), tag("span", words)) for value, words in tiles), class_="figures")


def before_after(metrics: dict[str, Any]) -> Html:
    rows, lines = [], []
    for name in OVER:
        row = metrics.get(name)
        if not row or not row["n"] or row["before"] is None:
            continue
        interval, moved = metrics["intervals"].get(name), metrics["changes"].get(name)
        summary = f"{name}: accuracy {share(row['before'])} before, {share(row['after'])} after"
        summary += "" if interval is None else f", 95% interval {span(*interval)}"
        label = tag("span", tag("b", name), tag("span", of(name, metrics["learned"]), class_="soft"), class_="name")
        now = tag("span", f"{share(row['before'])} → ", tag("b", share(row["after"])), class_="number")
        lines.append(tag("li", label, dumbbell(row["before"], row["after"], interval, summary), now))
        rows.append((
            name, count(row["n"]), share(row["before"]), share(row["after"]),
            "–" if interval is None else span(*interval), change(row["before"], row["after"]),
            "–" if moved is None else span(*moved, write=lambda v: change(0, v)),
            probability(metrics["p_values"].get(name)),
        ))  # fmt: skip
    lines.append(tag("li", tag("span", class_="name"), scale_of_shares(), tag("span"), class_="axis"))
    head = ("set", "n", "before", "after", "95% interval", "change (points)", "95% interval (change)", "p")
    return join([
        tag("ul", *lines, class_="dumbbells"),
        tag("p", tag("span", "○", class_="sign before"), " before", tag("span", "●", class_="sign after"),
            " after, with its 95% interval", class_="note signs"),
        table(head, rows, "Accuracy before and after"),
        tag("p", "Intervals of an accuracy are Wilson's; those of a change come from a paired bootstrap. p is from the "
                 "exact McNemar test of fixed against broken.", class_="note"),
    ])  # fmt: skip


def changes(metrics: dict[str, Any]) -> Html:
    """Fixed and newly broken in a sentence, and the test against the controls."""
    n, rest = metrics["holdout"]["n"], metrics["remaining"]
    parts = [tag("b", count(metrics["fixed"])), f" of {many(n, 'holdout failure')} are fixed"] if n else []
    if rest is not None:
        right = many(rest["n"], "example that was right", "examples that were right")
        parts += ["; " if parts else "", tag("b", count(metrics["newly_broken"])), f" of {right} are newly broken"]
    if metrics["removed"] and metrics.get("p_value") is not None:
        parts += [". Against the stronger control, p ", _p(metrics["p_value"])]
    return tag("p", *parts, ".")


def _p(value: float) -> str:
    text = probability(value)
    return text.replace("<", "< ") if text.startswith("<") else f"= {text}"


def curves(rows: Sequence[dict[str, Any]], metrics: dict[str, Any]) -> Html:
    """Holdout and remaining side by side; the query in place of holdout if nothing was held out."""
    judged = judged_on(metrics)
    panels = [(judged, f"Accuracy on {judged} failures"), ("remaining", "Accuracy on remaining")]
    shown = [p for p in panels if any(r.get(p[0]) is not None for r in rows)]
    chosen = metrics["removed"] if len(metrics.get("rounds", ())) < 2 else None
    kinds = [r["by"] for r in rows]
    return join(
        [tag("div", *(curve(rows, name, title, chosen) for name, title in shown), class_="curves"), legend(kinds)]
    )


def curve_table(rows: Sequence[dict[str, Any]]) -> Html:
    names = [n for n in ("query", "holdout", "guard", "remaining") if any(r.get(n) is not None for r in rows)]
    head = ["by", "removed", *names, *(f"{n}, lowest to highest refit" for n in names if n in ("holdout", "remaining"))]
    body = [
        (r["by"], count(r["removed"]), *(share(r.get(n)) for n in names),
         *(span(r.get(f"{n}_low"), r.get(f"{n}_high")) for n in names if n in ("holdout", "remaining")))
        for r in rows
    ]  # fmt: skip
    return folded("The curve as a table", table(head, body, "Accuracy for every number removed that was tried"))


def controls(metrics: dict[str, Any]) -> Html:
    """This repair, forgetting alone if it also learned, and the same treatment without removing the causes."""
    rows = [("this repair", count(metrics["removed"]), *(share((metrics[n] or {}).get("after")) for n in
             ("query", "holdout", "remaining")))]  # fmt: skip
    alone = forgetting_alone(metrics)
    alone_rows = [] if alone is None else [("forgetting alone", alone)]
    for name, row in [
        *alone_rows,
        *((f"control: {chosen_by(name)}", row) for name, row in metrics["controls"].items()),
    ]:
        shares = (share(row.get(n)) for n in ("query", "holdout", "remaining"))
        rows.append((name, count(row["removed"]), *shares))
    return table(("", "removed", "query", "holdout", "remaining"), rows, "Accuracy of the repair and of its controls")


def sentence(text: str) -> str:
    """The text with a capital and a full stop."""
    text = text.strip()
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")
