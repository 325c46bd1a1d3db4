"""Charts as inline SVG. Each line has its own marker and dash, so colour is never needed to tell them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from amends.report.markup import Html, count, join, share, tag

WIDE, HIGH = 420, 286
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 24, 44
LINES = {
    "causes": ("causes", "circle", "causes removed"),
    "random": ("control", "square", "control: as many removed at random"),
    "nothing": ("nothing", "", "control: nothing removed"),
    "causes, failures learned": ("causes", "diamond", "causes removed, failures learned from"),
}


def chosen_by(name: str) -> str:
    """How the examples of a line were chosen, in words."""
    return LINES[name][2].removeprefix("control: ") if name in LINES else name


def dumbbell(before: float, after: float, interval: Sequence[float] | None, summary: str) -> Html:
    """An accuracy before and after, with its interval, on a line from 0 to 1. Positions are in percent and sizes in
    pixels: the line fills its column, and the marks keep their size."""

    def at(value: float) -> str:
        return f"{2 + 96 * min(max(value, 0.0), 1.0):.2f}%"

    parts = [tag("line", x1=at(v), x2=at(v), y1=4, y2=30, class_="tick") for v in (0, 0.25, 0.5, 0.75, 1)]
    parts.append(tag("line", x1=at(0), x2=at(1), y1=17, y2=17, class_="track"))
    parts.append(tag("line", x1=at(before), x2=at(after), y1=17, y2=17, class_="moved"))
    if interval is not None:
        low, high = interval
        parts.append(tag("line", x1=at(low), x2=at(high), y1=17, y2=17, class_="interval"))
        parts += [tag("line", x1=at(v), x2=at(v), y1=10, y2=24, class_="interval-end") for v in (low, high)]
    parts.append(tag("circle", cx=at(before), cy=17, r=5, class_="before"))
    parts.append(tag("circle", cx=at(after), cy=17, r=6, class_="after"))
    return tag("svg", tag("title", summary), *parts, class_="dumbbell", role="img", width="100%", height="34")


def scale_of_shares() -> Html:
    """The axis under a stack of dumbbells."""
    marks = [
        tag("text", share(v).replace(".0", ""), x=f"{2 + 96 * v:.2f}%", y=12,
            text_anchor="start" if v == 0 else "end" if v == 1 else "middle")
        for v in (0, 0.25, 0.5, 0.75, 1)
    ]  # fmt: skip
    return tag("svg", *marks, class_="dumbbell", width="100%", height="18", aria_hidden="true")


def bar(value: float, most: float) -> Html:
    """A bar next to a number."""
    width = 100 * max(0.0, value) / most if most > 0 else 0.0
    drawn = tag("rect", x=0, y=0, width=f"{width:.1f}%", height=6, rx=1)
    return tag("svg", drawn, class_="bar", width="100%", height="6", aria_hidden="true")


def curve(rows: Sequence[dict[str, Any]], name: str, title: str, chosen: int | None) -> Html:
    """Accuracy on `name` over the number removed, with both controls and bands from the lowest refit to the
    highest; the chosen number is marked."""
    rows = [r for r in rows if r.get(name) is not None]
    most = max((r["removed"] for r in rows), default=0) or 1
    low, high, step = _range(
        [r[k] for r in rows for k in (name, f"{name}_low", f"{name}_high") if r.get(k) is not None]
    )

    def x(value: float) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * value / most

    def y(value: float) -> float:
        return TOP + (HIGH - TOP - BOTTOM) * (high - value) / (high - low)

    parts = [_axes(x, y, low, high, step, most)]
    by = {kind: sorted((r for r in rows if r["by"] == kind), key=lambda r: r["removed"]) for kind in LINES}
    nothing = by["nothing"][:1]
    if nothing:
        ends = [nothing[0] | {"removed": 0}, nothing[0] | {"removed": most}]
        parts += [_band(ends, name, x, y, "nothing"), _line(ends, name, x, y, "nothing")]
    for kind in ("random", "causes"):
        points = [*nothing, *by[kind]]
        if by[kind]:
            parts += [_band(points, name, x, y, LINES[kind][0]), _line(points, name, x, y, LINES[kind][0])]
            parts += [marker(LINES[kind][1], x(r["removed"]), y(r[name]), LINES[kind][0]) for r in by[kind]]
    learned = "causes, failures learned"
    parts += [marker(LINES[learned][1], x(r["removed"]), y(r[name]), LINES[learned][0]) for r in by[learned]]
    if chosen:
        parts.append(tag("line", x1=x(chosen), x2=x(chosen), y1=TOP, y2=HIGH - BOTTOM, class_="chosen"))
        label = f"chosen: {count(chosen)}"
        at = min(max(x(chosen), LEFT + 4 * len(label)), WIDE - RIGHT - 3.5 * len(label))
        parts.append(tag("text", label, x=at, y=TOP - 8, text_anchor="middle", class_="chosen-text"))
    summary = "; ".join(f"{LINES[r['by']][2]}, {r['removed']}: {share(r[name])}" for r in rows if r["by"] in LINES)
    drawn = tag(
        "svg", tag("title", f"{title}. {summary}"), *parts, viewBox=f"0 0 {WIDE} {HIGH}", role="img", class_="curve"
    )
    return tag("figure", tag("figcaption", title), drawn)


def legend(kinds: Sequence[str]) -> Html:
    """What each line of the curve means."""
    items = []
    for kind in LINES:
        if kind in kinds:
            style, shape, words = LINES[kind]
            learned = "learned" in kind
            line = None if learned else tag("line", x1=1, x2=35, y1=8, y2=8, class_=f"line {style}")
            sample = tag(
                "svg", line, marker(shape, 18, 8, style), width=36, height=16, aria_hidden="true", class_="curve"
            )
            items.append(tag("li", sample, words))
    band = tag("rect", x=1, y=2, width=34, height=12, class_="band causes")
    sample = tag("svg", band, width=36, height=16, aria_hidden="true", class_="curve")
    items.append(tag("li", sample, "lowest to highest refit"))
    return tag("ul", *items, class_="legend")


def marker(shape: str, x: float, y: float, style: str) -> Html:
    match shape.split():
        case ["circle"]:
            return tag("circle", cx=x, cy=y, r=4.2, class_=f"mark {style}")
        case ["square"]:
            return tag("rect", x=x - 3.8, y=y - 3.8, width=7.6, height=7.6, class_=f"mark {style}")
        case [*kind, "diamond"]:
            points = f"{x},{y - 6.5:.4g} {x + 6.5:.6g},{y} {x},{y + 6.5:.6g} {x - 6.5:.6g},{y}"
            return tag("polygon", points=points, class_=f"mark {style} {' '.join(kind)}".strip())
    return Html("")


def _line(points: Sequence[dict[str, Any]], name: str, x: Any, y: Any, style: str) -> Html:
    at = " ".join(f"{x(r['removed']):.2f},{y(r[name]):.2f}" for r in points)
    return tag("polyline", points=at, class_=f"line {style}")


def _band(points: Sequence[dict[str, Any]], name: str, x: Any, y: Any, style: str) -> Html | None:
    ends = [[(x(r["removed"]), y(r[f"{name}_{end}"])) for r in points if r.get(f"{name}_{end}") is not None]
            for end in ("low", "high")]  # fmt: skip
    if len(ends[0]) < 2:
        return None
    at = " ".join(f"{a:.2f},{b:.2f}" for a, b in ends[0] + ends[1][::-1])
    return tag("polygon", points=at, class_=f"band {style}")


def _axes(x: Any, y: Any, low: float, high: float, step: float, most: int) -> Html:
    parts = []
    for k in range(round((high - low) / step) + 1):
        value = low + k * step
        parts.append(tag("line", x1=LEFT, x2=WIDE - RIGHT, y1=y(value), y2=y(value), class_="grid"))
        digits = 0 if step >= 0.01 - 1e-9 else 1
        parts.append(tag("text", f"{100 * value:.{digits}f}%", x=LEFT - 7, y=y(value) + 4, text_anchor="end"))
    for value in _numbers(most):
        parts.append(tag("line", x1=x(value), x2=x(value), y1=HIGH - BOTTOM, y2=HIGH - BOTTOM + 4, class_="axis"))
        parts.append(tag("text", count(value), x=x(value), y=HIGH - BOTTOM + 17, text_anchor="middle"))
    parts.append(tag("line", x1=LEFT, x2=WIDE - RIGHT, y1=HIGH - BOTTOM, y2=HIGH - BOTTOM, class_="axis"))
    parts.append(
        tag("text", "training examples removed", x=(LEFT + WIDE - RIGHT) / 2, y=HIGH - 7, text_anchor="middle")
    )
    return join(parts)


def _range(values: Sequence[float]) -> tuple[float, float, float]:
    """Ends and step of an axis of accuracies: narrower than 0 to 1 where they differ little."""
    values = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    spread = max(max(values) - min(values), 0.01)
    step = next(s for s in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25) if s == 0.25 or spread / s <= 5)
    low = max(0.0, math.floor(min(values) / step + 1e-9) * step)
    high = min(1.0, math.ceil(max(values) / step - 1e-9) * step)
    return (low, high, step) if high > low else (max(0.0, high - step), max(high, step), step)


def _numbers(most: int) -> list[int]:
    """Round numbers from 0, five or six of them."""
    rough = most / 5
    power = 10 ** math.floor(math.log10(rough)) if rough >= 1 else 1
    step = max(1, int(next(m for m in (1, 2, 2.5, 5, 10) if m * power >= rough) * power))
    return list(range(0, most + 1, step))
