"""Figures from rows: curves with bands over seeds, images in a grid; one colour for each method everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.protocol import NOTHING, REFERENCES
from experiments.running import Row

STYLE = {  # what a method is called, and its colour
    "ewc_as_printed": ("EWC-influence, as printed", "#d62728"),
    "ewc": ("EWC-influence, at its optimum", "#ff7f0e"),
    "linear, gd": ("linear influence, GD", "#1f77b4"),
    "linear, sa": ("linear influence, SA", "#17becf"),
    "sgd_influence": ("SGD-influence", "#2ca02c"),
    "default": ("amends' default", "#9467bd"),
    "random": ("random", "#7f7f7f"),
    "oracle": ("oracle", "#000000"),
}
OTHERS = "#c8c8c8"  # all methods beside these, which a table tells apart
NEAR = (4, -11)  # how high a name stands that is close to its point
FAR = tuple(sign * up - 7 * (sign < 0) for up in range(14, 100, 12) for sign in (1, -1))  # above, below, further above


def style(method: str) -> tuple[str, str]:
    return STYLE.get(method, ("other methods", OTHERS))


def over_seeds(rows: Iterable[Row], method: str, measure: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every k there is, in order, with mean and standard deviation over the seeds."""
    at: dict[float, list[float]] = {}
    for row in rows:
        if (row.method, row.measure) == (method, measure):
            at.setdefault(row.k, []).append(row.value)
    ks = sorted(at)
    return np.array(ks), np.array([np.mean(at[k]) for k in ks]), np.array([np.std(at[k]) for k in ks])


def methods_of(rows: list[Row], measure: str) -> list[str]:
    """Those with this measure, in the order they were made; those with a colour of their own last, above the rest."""
    made = list(dict.fromkeys(row.method for row in rows if row.measure == measure))
    return sorted(made, key=lambda name: name in STYLE)


def curves(ax: Any, rows: list[Row], measure: str, marker: str = "") -> None:
    """A line for each method, with a band of a standard deviation to either side where there are several seeds; never
    beyond what a share can be. References are levels."""
    for method in methods_of(rows, measure):
        k, mean, deviation = over_seeds(rows, method, measure)
        if len(k) < 2 or method in REFERENCES:
            continue
        name, colour = style(method)
        dashes = ":" if method in ("random", "oracle") else "-"
        ax.plot(k, mean, dashes, color=colour, label=name, marker=marker, markersize=4, linewidth=1.6)
        if method in STYLE:
            low, high = (np.clip(mean + side * deviation, 0, 1) for side in (-1, 1))
            ax.fill_between(k, low, high, color=colour, alpha=0.15, linewidth=0)


def ends(rows: list[Row], method: str, measure: str) -> dict[int, float]:
    """By seed, what there is at the largest k."""
    own = sorted((row for row in rows if (row.method, row.measure) == (method, measure)), key=lambda row: row.k)
    return {row.seed: row.value for row in own}


def exchange(ax: Any, rows: list[Row], title: str) -> None:
    """What each method fixes against what it keeps, where causes of one number alone were removed: a point each, with
    its name. Both are less what training on gives the same network with nothing removed, so that methods can be
    compared that were run in unlike networks; bars are a standard deviation to either side."""
    start = [ends(rows, NOTHING, measure) for measure in ("holdout", "remaining")]
    seeds, points = len(start[0]), {}
    for method in methods_of(rows, "holdout"):
        own = [ends(rows, method, measure) for measure in ("holdout", "remaining")]
        points[method] = [np.array([after[s] - before[s] for s in after if s in before])
                          for after, before in zip(own, start, strict=True)]  # fmt: skip
    points = {method: found for method, found in points.items() if len(found[0])}
    middle = float(np.mean([fixed.mean() for fixed, _ in points.values()])) if points else 0.0
    names: dict[str, tuple[float, float]] = {}
    for method, (fixed, kept) in points.items():
        reference = method in REFERENCES
        name, colour = (method, "#000000") if reference else style(method)
        ax.errorbar(fixed.mean(), kept.mean(), kept.std(), fixed.std(), "x" if reference else "o", color=colour,
                    elinewidth=0.6)  # fmt: skip
        said = method if name == "other methods" else name
        said += "" if len(fixed) == seeds else f" ({len(fixed)} of {seeds})"
        names[said] = (fixed.mean(), kept.mean())
    ax.margins(x=0.12, y=0.12)
    labelled(ax, title, "failures never shown: more of them right than with nothing removed",
             "what worked: more right than with nothing removed")  # fmt: skip
    named(ax, names, middle)


def named(ax: Any, points: dict[str, tuple[float, float]], middle: float) -> None:
    """Names beside their points, towards the middle; elsewhere where one would hide a point or another name, or leave
    the axes; a thin line leads to one that is not close."""
    ax.figure.draw_without_rendering()  # limits and places up to date, which the transforms below read
    at = {name: ax.transData.transform(xy) * 72 / ax.figure.dpi for name, xy in points.items()}
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in at.values()]
    left, right = (float(ax.transAxes.transform((side, 0))[0]) * 72 / ax.figure.dpi for side in (0, 1))
    for name, (x, y) in at.items():
        sides = (-1, 1) if points[name][0] > middle else (1, -1)
        spots = [(side, up) for up in (*NEAR, *FAR) for side in sides]
        boxes = [box(x + 6 * side, y + up, 4.5 * len(name) * side) for side, up in spots]
        hidden = [sum(overlap(own, other) for other in taken) + (own[0] < left or own[2] > right) for own in boxes]
        side, up = spots[int(np.argmin(hidden))]
        taken.append(boxes[int(np.argmin(hidden))])
        line = {"arrowstyle": "-", "linewidth": 0.4, "shrinkA": 0, "relpos": (float(side < 0), 0.5)}
        ax.annotate(name, points[name], textcoords="offset points", xytext=(6 * side, up), fontsize=8,
                    ha="right" if side < 0 else "left", arrowprops=None if up in NEAR else line)  # fmt: skip


def box(x: float, y: float, wide: float) -> tuple[float, float, float, float]:
    """Where a name stands that begins or ends at x, in points: left, low, right, high."""
    return min(x, x + wide), y, max(x, x + wide), y + 8


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(one[i] < other[i + 2] and other[i] < one[i + 2] for i in (0, 1))


def level(ax: Any, rows: list[Row], method: str, measure: str, label: str, dashes: str = "--") -> None:
    """A line across, for something that does not depend on k."""
    found = [row.value for row in rows if (row.method, row.measure) == (method, measure)]
    if found:
        ax.axhline(float(np.mean(found)), color="#000000", linestyle=dashes, linewidth=1, label=label)


def axes_of(width: float, height: float, columns: int, rows: int = 1) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, np.atleast_1d(figure.subplots(rows, columns))


def labelled(ax: Any, title: str, x: str, y: str) -> None:
    ax.set_title(title, fontsize=11)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(alpha=0.25)


def legend(figure: Figure, *axes: Any) -> None:
    """One for all axes, below them."""
    known: dict[str, Any] = {}
    for ax in axes:
        for line, name in zip(*ax.get_legend_handles_labels(), strict=True):
            known.setdefault(name, line)
    figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=5, fontsize=9, frameon=False)


def matrix(ax: Any, confusion: dict[tuple[int, int], float], classes: tuple[str, ...]) -> None:
    """The shares of each true class that are given each label."""
    table = np.eye(len(classes))
    for (a, b), share in confusion.items():
        table[a, b] = share
        table[a, a] -= share
    ax.imshow(table, cmap="Blues", vmin=0, vmax=1)
    for a, b in zip(*np.nonzero(table), strict=True):
        ax.text(b, a, f"{table[a, b]:.1f}", ha="center", va="center", fontsize=8,
                color="white" if table[a, b] > 0.5 else "black")  # fmt: skip
    ax.set_xticks(range(len(classes)), classes, rotation=0 if len(classes[0]) == 1 else 60)
    ax.set_yticks(range(len(classes)), classes)
    ax.set_title("a. labels given to each class", fontsize=11)
    ax.set_xlabel("label given")
    ax.set_ylabel("true class")


def images(ax: Any, stored: np.ndarray, title: str, across: int = 8, frames: np.ndarray | None = None) -> None:
    """Images [N, C, H, W] side by side, those that `frames` names in a red frame."""
    n, _, high, wide = stored.shape
    gap, down = max(2, high // 14), -(-n // across)
    sheet = np.full((down * (high + gap) + gap, across * (wide + gap) + gap, 3), 255, np.uint8)
    for i, image in enumerate(stored):
        top, left = gap + i // across * (high + gap), gap + i % across * (wide + gap)
        if frames is not None and frames[i]:
            sheet[top - gap : top + high + gap, left - gap : left + wide + gap] = (214, 39, 40)
        sheet[top : top + high, left : left + wide] = np.broadcast_to(np.moveaxis(image, 0, 2), (high, wide, 3))
    ax.imshow(sheet)
    ax.set_title(title, fontsize=11)
    ax.set_axis_off()


def saved(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path
