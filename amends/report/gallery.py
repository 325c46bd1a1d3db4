"""Examples to look at: causes with the failures they conflict with, and predictions that changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from amends.errors import many
from amends.report.charts import bar
from amends.report.markup import Html, count, folded, join, number, probability, table, tag
from amends.report.view import View

MOST = 60  # causes with a card of their own
FIRST = 12  # of these cards, shown unfolded
LISTED = 200  # causes in the table
DECISIONS = {"remove": "removed", "relabel": "relabelled", "keep": "kept", "": "undecided"}


class Room:
    """How many bytes a report may still grow by; a part that does not fit is left out."""

    def __init__(self, size: int):
        self.left = size

    def fit(self, parts: Iterable[Html], most: int | None = None) -> list[Html]:
        """The first parts, as many as there is room for, and at most `most` bytes of them."""
        end = max(0, self.left - most) if most is not None else 0
        kept = []
        for part in parts:
            size = len(part.encode())
            if self.left - size < end:
                break
            self.left -= size
            kept.append(part)
        return kept


def appearance(look: dict[str, Any], alt: str) -> Html | None:
    """A picture, a text, or the columns that stand out; None if an example cannot be shown."""
    if "image" in look:
        return tag("img", src=look["image"], alt=alt, class_="picture")
    if "text" in look:
        return tag("blockquote", look["text"])
    names = look.get("stands_out") or ()
    if not names:
        return None
    far = look.get("deviations") or [None] * len(names)
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", f"{value:.4g}".replace("-", "−"), class_="number"),
            tag("td", "" if z is None else f"{z:+.1f} sd".replace("-", "−"), class_="number soft"))
        for name, value, z in zip(names, look["values"], far, strict=True)
    ]  # fmt: skip
    return tag("table", tag("caption", "what stands out"), tag("tbody", *rows), class_="row")


def cause_card(run: View, cause: dict[str, Any], rank: int, most: float) -> Html:
    given, suggested = run.label(cause["given"]), run.label(cause["suggested"])
    index, decision = cause["index"], str(cause.get("decision") or "")
    named = str(cause.get("path") or "") or (str(cause["id"]) if str(cause.get("id")) != str(index) else "")
    after = "after the repair" if run.metrics.get("removed") else "once the failures are learned"
    facts = [
        ("given", tag("b", given)),
        ("suggested", tag("b", suggested) if suggested != given else tag("span", given, " (the same)")),
        ("score", join([number(cause["score"], 2), bar(cause["score"], most)])),
        (join(["p(given)"]), tag("span", probability(cause["p_given"]), " → ", probability(cause["p_given_after"]),
                                 title=f"probability of the given label, before and {after}")),
    ]  # fmt: skip
    head = tag("header", tag("span", f"{rank}", class_="rank"), tag("span", f"train[{index}]", class_="soft"),
               tag("span", named, class_="soft named") if named else None,
               tag("span", DECISIONS.get(decision, decision), class_="decision"))  # fmt: skip
    look = run.look("train", index)
    seen = appearance(look, f"training example {index}, given label {given}, suggested {suggested}")
    listed = tag("dl", *(join([tag("dt", k), tag("dd", v)]) for k, v in facts))
    return tag("article", head, tag("div", seen, listed, class_="example"), _against(run, cause), class_="card")


def _against(run: View, cause: dict[str, Any]) -> Html | None:
    """The failures a cause conflicts with most, small."""
    at = cause["conflicts_with"]
    if not at:
        return None
    shown = at[: 5 if run.looks.get("kind") == "image" else 2]
    rest = f"and {', '.join(f'failures[{j}]' for j in at[len(shown) : 5])}" if len(at) > len(shown) else None
    return tag("div", tag("h4", "conflicts with"), tag("ul", *(failure(run, j) for j in shown), class_="beside"),
               tag("p", rest, class_="note") if rest else None)  # fmt: skip


def failure(run: View, position: int, kind: str = "failures") -> Html:
    """One example of the failures or of remaining, with its label and what the model predicts."""
    look = run.look(kind, position)
    label = look.get("label")
    alt = f"{kind}[{position}]" + ("" if label is None else f", label {run.label(label)}")
    inside, caption = appearance(look, alt), tag("span", *_caption(run, look, position, kind), class_="told")
    return tag("li", *((inside, caption) if "image" in look else (caption, inside)))


def _caption(run: View, look: dict[str, Any], position: int, kind: str) -> list[Any]:
    where, name = f"{kind}[{position}]", str(look.get("id", ""))
    at = (tag("span", kind, class_="set"), f"[{position}]") if name in ("", str(position)) else (name,)
    place = tag("span", " ", *at, class_="place", title=where)
    if look.get("label") is None:
        return [place]
    predictions = [run.label(look[k]) for k in ("predicted", "predicted_after") if look.get(k) is not None]
    label = tag("b", run.label(look["label"]))
    words = tag("span", " predicted ", class_="word")
    return [label, tag("span", words, " → ".join(predictions), class_="said") if predictions else None, place]


def causes(run: View, room: Room) -> Html:
    """The strongest as cards, the first of them open, and more as a table; causes.csv has all."""
    most = max((c["score"] for c in run.causes[:MOST] if math.isfinite(c["score"])), default=0.0)
    wanted = run.causes[:MOST]
    listed = _listed(run)
    cards = room.fit(cause_card(run, c, i, most) for i, c in enumerate(wanted, 1))
    style = f"cards {run.looks.get('kind', 'none')}"
    parts: list[Any] = [tag("div", *cards[:FIRST], class_=style)]
    if cards[FIRST:]:
        parts.append(folded(f"{len(cards) - FIRST} more", tag("div", *cards[FIRST:], class_=style)))
    if len(cards) < len(wanted):
        parts.append(tag("p", f"{many(len(wanted) - len(cards), 'more does', 'more do')} not fit into this report; "
                              "causes.csv lists them all.", class_="note"))  # fmt: skip
    return join([*parts, listed])


def _listed(run: View) -> Html:
    rows = [
        (str(i), str(c["index"]), run.label(c["given"]), run.label(c["suggested"]), run.label(c["predicted"]),
         run.label(c["predicted_after"]), probability(c["p_given"]), probability(c["p_given_after"]),
         number(c["score"], 2), run.label(c.get("group", "")))
        for i, c in enumerate(run.causes[:LISTED], 1)
    ]  # fmt: skip
    head = ("rank", "index", "given", "suggested", "predicted", "predicted after", "p(given)", "p(given) after",
            "score", "group")  # fmt: skip
    what = f"the first {len(rows)} of {count(run.total)}" if run.total > len(rows) else f"all {len(rows)}"
    return folded(f"As a table: {what}", table(head, rows, "Causes, most harmful first", words=(2, 3, 4, 5, 9)))


def changed(run: View, positions: Sequence[int], kind: str, room: Room, most: int) -> Html:
    """Examples of the failures or of remaining, as many as can be shown."""
    shown = [p for p in positions if run.look(kind, p)]
    tiles = room.fit((failure(run, p, kind) for p in shown), most)
    rest = len(positions) - len(tiles)
    more = None
    if rest and tiles:
        more = tag(
            "p", f"{count(len(tiles))} of {count(len(positions))} are shown; metrics.json lists all.", class_="note"
        )
    elif rest:
        named = ", ".join(str(p) for p in positions[:20]) + (", …" if len(positions) > 20 else "")
        more = tag("p", f"Positions in {kind}: {named}", class_="note")
    return join([tag("ul", *tiles, class_=f"tiles {run.looks.get('kind', 'none')}") if tiles else None, more])


def copies(run: View, room: Room, most: int) -> Html:
    """Near copies among the causes, group by group. Texts and rows look alike, so only the first is shown."""
    given = {c["index"]: run.label(c["given"]) for c in run.causes}
    groups = []
    for group in run.metrics["duplicates"]:
        seen = [appearance(run.look("train", i), f"training example {i}") for i in group[:12]]
        if seen[0] is None:
            continue
        captions = [tag("span", tag("b", given.get(i, "")), tag("span", f" train[{i}]", class_="place"), class_="told")
                for i in group[:12]]  # fmt: skip
        rest = tag("span", f"and {len(group) - 12} more", class_="told soft") if len(group) > 12 else None
        if run.looks.get("kind") == "image":
            groups.append(
                tag("ul", *(tag("li", a, b) for a, b in zip(seen, captions, strict=True)), rest, class_="tiles image")
            )
        else:
            groups.append(tag("div", *captions, rest, seen[0], class_=f"copies {run.looks.get('kind')}"))
    shown = room.fit(groups, most)
    left = len(run.metrics["duplicates"]) - len(shown)
    return join(
        [
            *shown,
            tag("p", f"{many(left, 'more group is', 'more groups are')} in metrics.json.", class_="note")
            if left
            else None,
        ]
    )
