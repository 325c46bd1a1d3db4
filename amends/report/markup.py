"""HTML and SVG in which everything is escaped unless it is markup already."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

VOID = {"img", "meta", "br", "hr", "col"}


class Html(str):
    """Text that is markup already. All other text is escaped when it goes into a tag, so a label or a text of the
    user can never become markup."""

    __slots__ = ()


def tag(name: str, /, *inside: Any, **attributes: Any) -> Html:
    """One element. `class_` is class, `stroke_width` is stroke-width; an attribute that is None or False is
    left out, as is a child that is None."""
    written = "".join(_attribute(k, v) for k, v in attributes.items() if v is not None and v is not False)
    return Html(f"<{name}{written}>" if name in VOID else f"<{name}{written}>{join(inside)}</{name}>")


def _attribute(name: str, value: Any) -> str:
    name = name.rstrip("_").replace("_", "-") if name != "viewBox" else name
    value = f"{value:.6g}" if isinstance(value, float) else value
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def join(parts: Iterable[Any]) -> Html:
    return Html("".join(p if isinstance(p, Html) else escape(str(p)) for p in parts if p is not None))


def table(
    head: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str, *, words: Sequence[int] = (0,), class_: str = ""
) -> Html:
    """A table that scrolls where it does not fit. The first cell of a row is its header; columns that are not among
    `words` are numbers, aligned to the right."""
    numeric = {i: None if i in words else "number" for i in range(len(head))}
    top = tag("tr", *(tag("th", h, scope="col", class_=numeric[i]) for i, h in enumerate(head)))
    body = [
        tag("tr", tag("th", row[0], scope="row", class_=numeric[0]),
            *(tag("td", cell, class_=numeric[i]) for i, cell in enumerate(row[1:], 1)))
        for row in rows
    ]  # fmt: skip
    element = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *body), class_=class_ or None)
    return tag("div", element, class_="scroll", tabindex="0", role="region", aria_label=caption)


def section(name: str, title: str, *inside: Any) -> Html:
    return tag("section", tag("h2", title, id=f"{name}-title"), *inside, id=name, aria_labelledby=f"{name}-title")


def folded(summary: Any, *inside: Any) -> Html:
    """Folded away on a screen; open in print."""
    return tag("details", tag("summary", summary), *inside)


# --- numbers as a person reads them ------------------------------------------------------------------------


def number(value: Any, digits: int = 3) -> str:
    if value is None or (isinstance(value, str) and not value):
        return "–"
    value = float(value)
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def share(value: Any) -> str:
    """A share as a percentage."""
    if value is None:
        return "–"
    return f"{100 * float(value):.1f}%" if math.isfinite(float(value)) else "–"


def probability(value: Any) -> str:
    if value is None or not math.isfinite(float(value)):
        return "–"
    value = float(value)
    return "<0.001" if 0 < value < 0.001 else ">0.999" if 0.999 < value < 1 else f"{value:.3f}"


def change(before: Any, after: Any) -> str:
    """A change in percentage points, with its sign."""
    if before is None or after is None:
        return "–"
    points = 100 * (float(after) - float(before))
    return "±0.0" if abs(points) < 0.05 else f"{points:+.1f}".replace("-", "−")


def count(value: Any) -> str:
    return "–" if value is None else f"{int(value):,}"


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def span(low: Any, high: Any, write: Any = share) -> str:
    return f"{write(low)} to {write(high)}"
