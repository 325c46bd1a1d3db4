"""Sample efficiency (appendix). Methods search with fewer and fewer of the failures.

    python -m experiments.sample_efficiency --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`. Every example with a positive score is removed, as in the paper; that is
usually about half of the training set. Precision and recall count the wrong labels among the removed; average precision
judges the ranking. Random removes half.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from amends.evaluation.rankings import average_precision
from experiments.protocol import REFERENCE, Case, after, flipped_labels
from experiments.rankings import chosen, rank, ranked
from experiments.running import Plan, Row, Rows, Values, main
from experiments.tables import Column
from experiments.tables import saved as table

SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)
FEW = (0.05, 0.25, 1.0)  # for a large network, to save time


def names(plan: Plan) -> tuple[str, ...]:
    return tuple(name for name in chosen(plan.methods) if name != "oracle")


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Values:
        case = plan.case(seed, flipped_labels)
        if name == REFERENCE:
            return after(case, np.flatnonzero(case.wrong))
        shares = FEW if plan.about.large else SHARES
        return [value for share in shares for value in with_a_share(case, name, share)]

    rows.fill([REFERENCE, *names(plan)], row)


def with_a_share(case: Case, name: str, share: float) -> Values:
    """Rows: what is found and repaired with the first part of the query's failures."""
    x, y = case.sets["query"]
    count = max(2, round(share * len(y)))
    scores, _ = rank(case, name, (x[:count], y[:count])) if share < 1 else ranked(case, name)
    harmful = scores > np.median(scores) if name == "random" else scores > 0
    found = [(share, "removed", harmful.sum()),
             (share, "precision", case.wrong[harmful].mean() if harmful.any() else 0),
             (share, "recall", harmful[case.wrong].mean()),
             (share, "average precision", average_precision(scores, case.wrong))]  # fmt: skip
    if 0 < harmful.sum() < len(harmful):
        found += [(share, measure, value) for _, measure, value in after(case, np.flatnonzero(harmful))]
    return found


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import curves, labelled, legend, level, panels, saved

    figure, axes = panels(9, 6, ("abc", "def"), (1, 1))
    titles = {"average precision": "a. the ranking", "precision": "b. precision", "recall": "c. recall",
              "holdout": "d. failures never shown", "remaining": "e. what worked"}  # fmt: skip
    for ax, (measure, title) in zip(axes.values(), titles.items(), strict=False):
        curves(ax, rows, measure, marker="o")
        level(ax, rows, REFERENCE, measure, "semi-oracle: every wrong label removed")
        ax.set_ylim(0, 0.3 if measure == "precision" else 1.05)
        labelled(
            ax, title, "share of the query failures", "accuracy" if measure in ("holdout", "remaining") else measure
        )
    axes["f"].set_axis_off()
    legend(axes["f"], *axes.values(), across=1, place="center left")
    shown = ("removed", *titles)
    columns: dict[str, Column] = {f"{m}, {share:.0%}": (m, share) for m in shown for share in SHARES[::2]}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


if __name__ == "__main__":
    main("sample-efficiency")
