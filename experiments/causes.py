"""Quality of causes (Fig. 3). The network goes on training without the causes a method found, more and more of them.

    python -m experiments.causes --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`. Better causes fix more failures, those of the query and those never
shown, and cost less of what worked. The semi-oracle goes on training without the wrong labels.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.protocol import NOTHING, REFERENCE, after, failed, flipped_labels
from experiments.rankings import GivenUp, chosen, ranked
from experiments.running import Plan, Row, Rows, main
from experiments.tables import Column
from experiments.tables import saved as table


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    todo = rows.missing([NOTHING, REFERENCE, *(name for name in chosen(plan.methods) if name != "oracle")])
    if not todo:
        return
    case = failed(flipped_labels(plan.start(seed)))
    for name in todo:
        if name in (NOTHING, REFERENCE):
            rows.add(name, after(case, np.flatnonzero(case.wrong) if name == REFERENCE else np.zeros(0, dtype=int)))
            continue
        try:
            scores, seconds = ranked(case, name)
        except GivenUp as why:
            rows.give_up(name, why)
            continue
        order = np.argsort(-scores, kind="stable")
        rows.add(name, [(0, "seconds", seconds), *(row for k in plan.removed for row in after(case, order[:k]))])


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import axes_of, curves, labelled, legend, level, saved

    figure, axes = axes_of(14, 4.6, 3)
    titles = {"query": "a. failures searched with", "holdout": "a. failures never shown", "remaining": "b. what worked"}
    for ax, (measure, title) in zip(axes, titles.items(), strict=True):
        curves(ax, rows, measure, marker="o")
        level(ax, rows, REFERENCE, measure, "semi-oracle: every wrong label removed")
        level(ax, rows, NOTHING, measure, "nothing removed", ":")
        labelled(ax, title, "causes removed, then fine-tuned", "accuracy")
    legend(figure, *axes)
    columns: dict[str, Column] = {f"{m}, {k} removed": (m, k) for m in titles for k in plan.removed}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


if __name__ == "__main__":
    main("causes")
