"""Pictures as PNG files, readable in print and without colour."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amends.report.charts import chosen_by

INK, CAUSES, CONTROL = "#22262b", "#1f6f8b", "#b0642a"


def _figure(width: float, height: float):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def image_grid(path: Path, images: np.ndarray, notes: Sequence[str], title: str, marked: np.ndarray) -> None:
    """Sixteen images; those `marked` have a thick frame."""
    figure = _figure(6.4, 7.0)
    figure.suptitle(title, color=INK, fontsize=13)
    for i, (axes, image, note) in enumerate(zip(figure.subplots(4, 4).flat, images, notes, strict=True)):
        axes.imshow(image, cmap="gray_r", interpolation="nearest")
        axes.set_title(note, fontsize=8.5, color=CONTROL if marked[i] else INK, pad=3)
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_linewidth(2.4 if marked[i] else 0.5)
            side.set_color(CONTROL if marked[i] else "#9aa0a6")
    figure.savefig(path)


def curve_picture(path: Path, rows: Sequence[dict[str, Any]], removed: int) -> None:
    """Accuracy over the number removed, with both controls; bands from the lowest refit to the highest."""
    figure = _figure(8.6, 3.9)
    nothing = next(r for r in rows if r["by"] == "nothing")
    for axes, name, title in zip(
        figure.subplots(1, 2), ("holdout", "remaining"), ("Accuracy on holdout failures", "Accuracy on remaining"),
        strict=True,
    ):  # fmt: skip
        for by, colour, marker, style in (("causes", CAUSES, "o", "-"), ("random", CONTROL, "s", "--")):
            points = [nothing, *(r for r in rows if r["by"] == by)]
            at = [r["removed"] for r in points]
            shares = [r[name] for r in points]
            axes.plot(at, shares, style, color=colour, marker=marker, markersize=4.5, label=chosen_by(by))
            low, high = ([r[f"{name}_{end}"] for r in points] for end in ("low", "high"))
            axes.fill_between(at, low, high, color=colour, alpha=0.16, linewidth=0)
        axes.axhline(nothing[name], color=INK, linewidth=0.9, linestyle=":", label=chosen_by("nothing"))
        axes.set_ylim(top=1.0, bottom=min(axes.get_ylim()[0], 0.9))
        if removed:
            axes.axvline(removed, color="#9aa0a6", linewidth=0.9)
            axes.annotate(f"chosen: {removed}", (removed, axes.get_ylim()[0]), xytext=(4, 5),
                          textcoords="offset points", fontsize=8.5, color=INK)  # fmt: skip
        axes.set_title(title, fontsize=11, color=INK)
        axes.set_xlabel("training examples removed")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e3e5e8", linewidth=0.7)
        axes.set_axisbelow(True)
    figure.axes[0].legend(frameon=False, fontsize=8.5)
    figure.savefig(path)
