"""Quality of causes (Fig. 3). The network goes on training without the causes a method found, more and more of them.

    python -m experiments.causes --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`. Better causes fix more failures, those of the query and those never
shown, and cost less of what worked. The semi-oracle goes on training without the wrong labels.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.protocol import NOTHING, REFERENCE, after, flipped_labels
from experiments.rankings import chosen, ranked
from experiments.running import Found, Plan, Row, Rows, main
from experiments.tables import Column
from experiments.tables import saved as table


def names(plan: Plan) -> tuple[str, ...]:
    return tuple(name for name in chosen(plan.methods) if name != "oracle")


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Found:
        case = plan.case(seed, flipped_labels)
        if name in (NOTHING, REFERENCE):
            return after(case, np.flatnonzero(case.wrong) if name == REFERENCE else np.zeros(0, dtype=int))
        scores, seconds = ranked(case, name)
        order = np.argsort(-scores, kind="stable")
        return [(0, "seconds", seconds), *(found for k in plan.removed for found in after(case, order[:k]))]

    rows.fill([NOTHING, REFERENCE, *names(plan)], row)


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import axes_of, curves, exchange, labelled, legend, level, saved

    titles = {"query": "a. failures searched with", "holdout": "b. failures never shown", "remaining": "c. what worked"}
    if len(plan.removed) == 1:
        figure, axes = axes_of(8, 5.4, 1)
        exchange(axes[0], rows, f"{plan.removed[0]:,} causes removed, then fine-tuned, {plan.on}")
    else:
        figure, axes = axes_of(14, 4.6, 3)
        for ax, (measure, title) in zip(axes, titles.items(), strict=True):
            curves(ax, rows, measure, marker="o")
            level(ax, rows, REFERENCE, measure, "semi-oracle: every wrong label removed")
            level(ax, rows, NOTHING, measure, "nothing removed", ":")
            labelled(ax, title, "causes removed, then fine-tuned", "accuracy")
        legend(figure, *axes)
    columns: dict[str, Column] = {f"{m}, {k} removed": (m, k) for m in titles for k in plan.removed[-3:]}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


if __name__ == "__main__":
    main("causes")
