"""Quality of causes (Fig. 3). The network is trained further without the causes a method found, more and more of them.

    python -m experiments.causes --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`. Better causes fix more failures, both in the query and among those never
shown, and break less of what worked. The semi-oracle is trained further without the wrong labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.protocol import NOTHING, REFERENCE, after, flipped_labels
from experiments.rankings import chosen, ranked
from experiments.running import Plan, Row, Rows, Values, main
from experiments.tables import Column, removed
from experiments.tables import saved as table

SEMI_ORACLE = "semi-oracle: every wrong label removed"
TITLES = {"query": "failures searched with", "holdout": "failures never shown", "remaining": "what worked"}


def names(plan: Plan) -> tuple[str, ...]:
    return tuple(name for name in chosen(plan.methods) if name != "oracle")


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Values:
        case = plan.case(seed, flipped_labels)
        if name in (NOTHING, REFERENCE):
            return after(case, np.flatnonzero(case.wrong) if name == REFERENCE else np.zeros(0, dtype=int))
        scores, seconds = ranked(case, name)
        order = np.argsort(-scores, kind="stable")
        return [(0, "seconds", seconds), *(value for k in plan.removed for value in after(case, order[:k]))]

    rows.fill([NOTHING, REFERENCE, *names(plan)], row)


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    """If several numbers of causes were removed, accuracies over that number. Below, every method compared with the
    semi-oracle in the same network."""
    from experiments.figures import BLACK, best_first, dots, height, labelled, legend, panels, saved, series

    every = removed(rows)
    sizes = sorted({every[len(every) // 3], every[-1]})
    gained = {measure: series(rows, measure, sizes, less=REFERENCE) for measure in TITLES}
    several, tall = len(every) > 1, height(gained["holdout"])
    above, below = ("abc", "def") if several else ("", "abc")
    figure, axes = panels(9.5, tall + 3.2 * several, (above, below)[not several :], (2.8, tall)[not several :])
    over_sizes(axes, rows, above)
    for letter, (measure, title) in zip(below, TITLES.items(), strict=True):
        dots(axes[letter], best_first(gained["holdout"]), gained[measure], least=-1, named=letter == below[0])
        axes[letter].axvline(0, color=BLACK, linestyle="--", linewidth=1, label=SEMI_ORACLE)
        labelled(axes[letter], f"{letter}. {title}", "accuracy less the semi-oracle's", "")
    if not several:
        figure.suptitle(f"{sizes[0]:,} causes removed, then fine-tuned, {plan.on}", fontsize=11)
    legend(figure, *axes.values(), across=4 if several else 5)
    columns: dict[str, Column] = {f"{m}, {k} removed": (m, k) for m in TITLES for k in every[-3:]}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


def over_sizes(axes: Any, rows: list[Row], letters: str) -> None:
    from experiments.figures import curves, labelled, level

    for letter, (measure, title) in zip(letters, TITLES.items(), strict=False):
        curves(axes[letter], rows, measure, marker="o")
        level(axes[letter], rows, REFERENCE, measure, SEMI_ORACLE)
        level(axes[letter], rows, NOTHING, measure, "nothing removed", ":")
        labelled(axes[letter], f"{letter}. {title}", "causes removed, then fine-tuned", "accuracy")


if __name__ == "__main__":
    main("causes")
