"""Confusion matrices before and after, and what has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amends.report.markup import Html, tag

MOST = 14  # classes shown one by one; where there are more, those most often confused, and the others as one

Matrix = list[list[int]]


def matrices(confusion: dict[str, Any]) -> tuple[Html, int]:
    """Three tables side by side, and how many classes they combine as "others"."""
    names, before, after = confusion["classes"], confusion["before"], confusion["after"]
    merged = 0
    if len(names) > MOST:
        names, before, after, merged = _fewer(names, before, after)
    shown = [_counts(title, names, m) for title, m in (("Before", before), ("After", after))]
    return tag("div", *shown, _difference("Difference", names, before, after), class_="matrices"), merged


def _fewer(names: Sequence[str], before: Matrix, after: Matrix) -> tuple[list[str], Matrix, Matrix, int]:
    n = len(names)
    wrong = [sum(m[i][j] + m[j][i] for m in (before, after) for j in range(n) if j != i) for i in range(n)]
    kept = sorted(sorted(range(n), key=lambda i: -wrong[i])[: MOST - 2])
    place = {i: k for k, i in enumerate(kept)}

    def merge(m: Matrix) -> Matrix:
        out = [[0] * (len(kept) + 1) for _ in range(len(kept) + 1)]
        for i in range(n):
            for j in range(n):
                out[place.get(i, len(kept))][place.get(j, len(kept))] += m[i][j]
        return out

    return [*(names[i] for i in kept), "others"], merge(before), merge(after), n - len(kept)


def _counts(title: str, names: Sequence[str], m: Matrix) -> Html:
    """Right and wrong predictions have scales of their own, so that the few wrong ones stand out."""
    size = range(len(m))
    right = max((m[i][i] for i in size), default=0) or 1
    wrong = max((m[i][j] for i in size for j in size if i != j), default=0) or 1

    def cell(i: int, j: int) -> Html:
        value = m[i][j]
        kind = "zero" if not value else "right" if i == j else "wrong"
        return tag(
            "td", f"{value:,}", class_=kind, style=f"--v:{value / (right if i == j else wrong):.3f}" if value else None
        )

    return _table(title, names, cell)


def _difference(title: str, names: Sequence[str], before: Matrix, after: Matrix) -> Html:
    change = [[b - a for a, b in zip(x, y, strict=True)] for x, y in zip(before, after, strict=True)]
    most = max((abs(v) for row in change for v in row), default=0) or 1

    def cell(i: int, j: int) -> Html:
        value = change[i][j]
        better = (value > 0) == (i == j)
        kind = "zero" if not value else "better" if better else "worse"
        text = f"{value:+,}".replace("-", "−") if value else "0"
        return tag("td", text, class_=kind, style=f"--v:{abs(value) / most:.3f}" if value else None)

    return _table(title, names, cell)


def _table(title: str, names: Sequence[str], cell: Any) -> Html:
    long = any(len(str(name)) > 3 for name in names)
    head = tag("tr", tag("td", tag("span", "true ↓  predicted →", class_="corner")),
               *(tag("th", tag("span", name), scope="col") for name in names))  # fmt: skip
    rows = [
        tag("tr", tag("th", name, scope="row"), *(cell(i, j) for j in range(len(names))))
        for i, name in enumerate(names)
    ]
    element = tag("table", tag("caption", title), tag("thead", head), tag("tbody", *rows),
               class_="matrix long" if long else "matrix")  # fmt: skip
    return tag("div", element, class_="scroll", tabindex="0", role="region", aria_label=f"confusion matrix: {title}")
