"""Figures from rows: curves with bands over seeds, a line of dots for every method, images in a grid. A colour means
the same in every figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.protocol import REFERENCES
from experiments.running import Row

STYLE = {  # name and colour of the paper's methods, the default, and methods that are best by some measure
    "ewc_as_printed": ("EWC-influence, as printed", "#d62728"),
    "ewc": ("EWC-influence, with L-BFGS", "#ff7f0e"),
    "linear, gd": ("linear influence, GD", "#1f77b4"),
    "linear, sa": ("linear influence, SA", "#17becf"),
    "sgd_influence": ("SGD-influence", "#2ca02c"),
    "default": ("amends' default", "#9467bd"),
    "functional": ("functional", "#f781bf"),
    "kfac_ewc": ("kfac_ewc", "#e0b000"),
    "laplace_mc": ("laplace_mc", "#7fb2ff"),
    "sufficiency": ("sufficiency", "#00695c"),
    "grad_dot": ("grad_dot", "#1a237e"),
    "loss": ("loss", "#f29e8e"),
    "random": ("random", "#8c564b"),
    "oracle": ("oracle", "#000000"),
}
OTHERS = "#a6a6a6"  # all other methods; each is named where it is drawn
BLACK = "#000000"  # references without a ranking: nothing removed, everything damaged removed, other ways to train
TREATMENTS = {"EWC-deletion": "#7cb300", "Newton removal": "#7a0f33"}
FRAME = (232, 0, 232)  # around an image that was damaged
DASHES = {"random": ":", "oracle": ":", "linear, sa": "--"}  # SA covers GD otherwise
MARKS = "os^D"  # one for each size of C, network or kind of failure


def style(method: str) -> tuple[str, str]:
    return STYLE.get(method, (method, BLACK if method in REFERENCES else OTHERS))


def over_seeds(rows: Iterable[Row], method: str, measure: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All k of a measure in ascending order, with mean and standard deviation over the seeds."""
    at: dict[float, list[float]] = {}
    for row in rows:
        if (row.method, row.measure) == (method, measure):
            at.setdefault(row.k, []).append(row.value)
    ks = sorted(at)
    return np.array(ks), np.array([np.mean(at[k]) for k in ks]), np.array([np.std(at[k]) for k in ks])


def curves(ax: Any, rows: list[Row], measure: str, marker: str = "") -> None:
    """A line for each method that has its own colour. With several seeds there is a band of one standard deviation to
    either side, clipped to [0, 1]. The label of a method states in how many seeds it was run, if not in all."""
    every = len({row.seed for row in rows})
    for i, (method, (name, colour)) in enumerate(STYLE.items()):
        k, mean, deviation = over_seeds(rows, method, measure)
        if len(k) < 2:
            continue
        seeds = len({row.seed for row in rows if (row.method, row.measure) == (method, measure)})
        label = name if seeds == every else f"{name} ({seeds} of {every})"
        ax.plot(k, mean, DASHES.get(method, "-"), color=colour, label=label, marker=marker, markersize=3, linewidth=1.6,
                zorder=3 - i / 100 + (method in DASHES))  # fmt: skip
        if deviation.any():
            low, high = (np.clip(mean + side * deviation, 0, 1) for side in (-1, 1))
            ax.fill_between(k, low, high, color=colour, alpha=0.13, linewidth=0)


def level(ax: Any, rows: list[Row], method: str, measure: str, label: str, dashes: str = "--") -> None:
    """A horizontal line, for a value that does not depend on k."""
    values = [row.value for row in rows if (row.method, row.measure) == (method, measure)]
    if values:
        ax.axhline(float(np.mean(values)), color=BLACK, linestyle=dashes, linewidth=1, label=label)


def by_seed(rows: list[Row], method: str, measure: str, k: float) -> dict[int, float]:
    """The value of each seed at k. A reference has a k of its own, and is taken at that."""
    own = [row for row in rows if (row.method, row.measure) == (method, measure)]
    return {row.seed: row.value for row in own if row.k == k or method in REFERENCES}


Series = dict[str, dict[str, list[float]]]  # for the label of each mark: the values of each method, one per network


def series(rows: list[Row], measure: str, sizes: Sequence[float], less: str | None = None) -> Series:
    """Values by the number of causes removed. If some method was not run in every network, values by network instead,
    at the largest number: networks differ more than methods do, and only marks of one network can be compared. With
    `less`, the value of that method in the same network is subtracted."""
    base = by_seed(rows, less, measure, 0) if less else {}
    last, seeds = sizes[-1], sorted({row.seed for row in rows})
    values = {(name, k): {seed: value - base.get(seed, 0) for seed, value in by_seed(rows, name, measure, k).items()}
              for name in dict.fromkeys(row.method for row in rows) for k in sizes}  # fmt: skip
    values = {key: seeded for key, seeded in values.items() if seeded}
    if any(set(seeded) != set(seeds) for seeded in values.values()):
        return {f"network {seed + 1}": {name: [seeded[seed]] for (name, k), seeded in values.items()
                                        if k == last and seed in seeded} for seed in seeds}  # fmt: skip
    return {f"the first {k:,}": {name: list(seeded.values()) for (name, size), seeded in values.items()
                                 if size == k and (k == last or name not in REFERENCES)} for k in sizes}  # fmt: skip


def best_first(shown: Series) -> list[str]:
    """The references, then all other methods by their mean over everything shown."""
    all_values: dict[str, list[float]] = {}
    for one_series in shown.values():
        for name, values in one_series.items():
            all_values.setdefault(name, []).extend(values)
    return sorted(
        all_values, key=lambda name: (name not in REFERENCES, name not in REFERENCES and -np.mean(all_values[name]))
    )


def dots(ax: Any, names: Sequence[str], shown: Series, least: float = 0.0, named: bool = True) -> None:
    """A line for each method, and on it the mean of each series. With several networks a bar shows one standard
    deviation to either side, clipped to [`least`, 1]. `named`: whether the methods' names are written on the axis."""
    for j, (label, one_series) in enumerate(shown.items()):
        shift = (j - (len(shown) - 1) / 2) * 0.7 / len(shown)
        ax.plot([], [], MARKS[j], color=BLACK, markerfacecolor="none", markersize=5, label=label)
        for i, name in enumerate(names):
            if own := one_series.get(name):
                mean, deviation = float(np.mean(own)), float(np.std(own))
                _, colour = style(name)
                ax.plot(np.clip([mean - deviation, mean + deviation], least, 1), [i + shift] * 2, color=colour, lw=0.9)
                ax.plot(mean, i + shift, MARKS[j], color=colour, markersize=4.5)
    for i in range(0, len(names), 2):
        ax.axhspan(i - 0.5, i + 0.5, color="#f4f4f4", zorder=0, linewidth=0)
    ax.set_yticks(range(len(names)), [style(name)[0] if named else "" for name in names])
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)  # every method may have been given up
    ax.tick_params(axis="y", length=0)
    ax.locator_params("x", nbins=5)


def height(shown: Series) -> float:
    """The height in inches that `dots` needs."""
    return 0.7 + len(best_first(shown)) * (0.13 + 0.04 * len(shown))


def crosses(ax: Any, rows: list[Row], method: str, ks: Sequence[float], **look: Any) -> list[tuple[float, float]]:
    """Draw what is fixed against what is kept, a point for each k. With several networks, bars show one standard
    deviation to either side. Returns the points."""
    by_k = [[by_seed(rows, method, measure, k) for measure in ("holdout", "remaining")] for k in ks]
    values = [[list(seeds.values()) for seeds in both] for both in by_k if all(both)]
    means, spreads = (
        np.array([[statistic(seeds) for seeds in both] for both in values]).reshape(-1, 2)
        for statistic in (np.mean, np.std)
    )
    if spreads.any():
        lines = ax.errorbar(*means.T, spreads[:, 1], spreads[:, 0], "none", ecolor=look["color"], lw=0.7, zorder=1)[2]
        for line in lines:
            line.set_alpha(0.4)
    ax.plot(*means.T, **look)
    return [(fixed, kept) for fixed, kept in means.tolist()]


def panels(width: float, height: float, layout: Sequence[str], heights: Sequence[float]) -> tuple[Figure, Any]:
    """A figure, and its axes by the letters in the layout."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplot_mosaic([list(line) for line in layout], height_ratios=heights)


def axes_of(width: float, height: float, columns: int, rows: int = 1) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, np.atleast_1d(figure.subplots(rows, columns))


def labelled(ax: Any, title: str, x: str, y: str) -> None:
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.25)


def legend(on: Any, *axes: Any, across: int = 4, place: str = "outside lower center") -> None:
    """One legend for all axes: below the figure, or in an empty panel."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for line, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, line)
    on.legend(list(entries.values()), list(entries), loc=place, ncols=across, fontsize=8.5, frameon=False)


def matrix(ax: Any, confusion: dict[tuple[int, int], float], classes: tuple[str, ...]) -> None:
    """The confusion matrix: for each true class, the shares of the labels it is given."""
    table = np.eye(len(classes))
    for (a, b), share in confusion.items():
        table[a, b] = share
        table[a, a] -= share
    ax.imshow(table, cmap="Greys", vmin=0, vmax=1)
    for a, b in zip(*np.nonzero(table), strict=True):
        ax.text(b, a, f"{table[a, b]:.1f}", ha="center", va="center", fontsize=8,
                color="white" if table[a, b] > 0.5 else "black")  # fmt: skip
    labelled(ax, "a. labels given to each class", "label given", "true class")
    ax.set_xticks(range(len(classes)), classes, rotation=0 if len(classes[0]) == 1 else 60)
    ax.set_yticks(range(len(classes)), classes)
    ax.grid(visible=False)


def images(ax: Any, stored: np.ndarray, title: str, across: int = 8, frames: np.ndarray | None = None,
           captions: Sequence[str] = ()) -> None:  # fmt: skip
    """Images [N, C, H, W] side by side, with a frame around those marked in `frames` and a caption below each."""
    n, _, high, wide = stored.shape
    gap, down, below = max(2, high // 12), -(-n // across), high // 3 if captions else 0
    step = high + gap + below
    sheet = np.full((down * step + gap, across * (wide + gap) + gap, 3), 255, np.uint8)
    for i, image in enumerate(stored):
        top, left = gap + i // across * step, gap + i % across * (wide + gap)
        if frames is not None and frames[i]:
            sheet[top - gap : top + high + gap, left - gap : left + wide + gap] = FRAME
        sheet[top : top + high, left : left + wide] = np.broadcast_to(np.moveaxis(image, 0, 2), (high, wide, 3))
        if captions:
            ax.text(
                left + wide / 2, top + high + gap + below / 2 - 1, captions[i], fontsize=6.5, ha="center", va="center"
            )
    ax.imshow(sheet)
    ax.set_title(title, fontsize=10)
    ax.set_axis_off()


def saved(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path
