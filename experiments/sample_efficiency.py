"""Sample efficiency (appendix). Methods search with fewer and fewer of the failures.

    python -m experiments.sample_efficiency --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`. Every example with a positive score is removed, as in the paper, which
is mostly about half of the training set; precision and recall are those of the wrong labels among them. Random removes
half.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.protocol import REFERENCE, Case, after, failed, flipped_labels
from experiments.rankings import GivenUp, chosen, ranked
from experiments.running import Plan, Row, Rows, main
from experiments.tables import Column
from experiments.tables import saved as table

SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    todo = rows.missing([REFERENCE, *(name for name in chosen(plan.methods) if name != "oracle")])
    if not todo:
        return
    case = failed(flipped_labels(plan.start(seed)))
    for name in todo:
        if name == REFERENCE:
            rows.add(name, after(case, np.flatnonzero(case.wrong)))
            continue
        try:
            rows.add(name, [row for share in SHARES for row in with_a_share(case, name, share)])
        except GivenUp as why:
            rows.give_up(name, why)


def with_a_share(case: Case, name: str, share: float) -> list[tuple[float, str, float]]:
    """What is found and repaired with the first so many failures of the query."""
    x, y = case.sets["query"]
    some = max(2, round(share * len(y)))
    scores, _ = ranked(case, name, (x[:some], y[:some]))
    harmful = scores > np.median(scores) if name == "random" else scores > 0
    made = [(share, "removed", harmful.sum()), (share, "precision", case.wrong[harmful].mean() if harmful.any() else 0),
            (share, "recall", harmful[case.wrong].mean())]  # fmt: skip
    if 0 < harmful.sum() < len(harmful):
        made += [(share, measure, value) for _, measure, value in after(case, np.flatnonzero(harmful))]
    return made


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import axes_of, curves, labelled, legend, level, saved

    figure, axes = axes_of(16, 4.4, 4)
    titles = {"precision": "a. precision", "recall": "b. recall", "holdout": "c. failures never shown",
              "remaining": "d. what worked"}  # fmt: skip
    for ax, (measure, title) in zip(axes, titles.items(), strict=True):
        curves(ax, rows, measure, marker="o")
        level(ax, rows, REFERENCE, measure, "semi-oracle: every wrong label removed")
        labelled(
            ax, title, "share of the query failures", "accuracy" if measure in ("holdout", "remaining") else measure
        )
    legend(figure, *axes)
    shown = ("removed", *titles)
    columns: dict[str, Column] = {f"{m}, {share:.0%}": (m, share) for m in shown for share in SHARES[::2]}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


if __name__ == "__main__":
    main("sample-efficiency")
