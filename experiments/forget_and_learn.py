"""Forget and learn (appendix). The network learns from the failures, forgets the causes, or does both.

    python -m experiments.forget_and_learn --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`; the causes are the first 15 % by EWC-influence. When it is trained on
the failures alone, the network is held near its start by a penalty ½ p ‖θ − θ̂‖², for several p. In the table, k is p.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.protocol import Case, fine_tuned, flipped_labels
from experiments.rankings import chosen, first
from experiments.running import Plan, Row, Rows, Values, main
from experiments.tables import Column
from experiments.tables import saved as table

CAUSES, SHARE = "ewc", 0.15
PULLS = (0.0, 100.0, 1e3, 1e4, 1e5)
FEW = (0.0, 1e4)  # for a large network, to save time
WAYS: dict[str, dict[str, Any]] = {
    "nothing removed": {},
    "D∖C": {},
    "failures": {"learn": True, "kept": False},
    "D∖C and failures": {"learn": True},
}
MARKS = {"nothing removed": "x", "D∖C": "*", "failures": "o", "D∖C and failures": "s"}


def names(plan: Plan) -> tuple[str, ...]:
    return chosen(plan.methods, WAYS, tuple(WAYS))


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Values:
        case = plan.case(seed, flipped_labels)
        pulls = (FEW if plan.about.large else PULLS) if name == "failures" else PULLS[:1]
        return [value for pull in pulls for value in treated(case, first(case, CAUSES, SHARE), name, pull)]

    rows.fill(names(plan), row)


def treated(case: Case, causes: np.ndarray, name: str, pull: float) -> Values:
    """On the failures alone an epoch is short, so there are more epochs: the number of steps is the same for all."""
    options = {**WAYS[name], "pull": pull}
    if name == "failures":
        epochs = case.about.tuning.get("epochs", 10) * len(case.wrong) / len(case.sets["query"][1])
        options |= {"epochs": epochs}
    model = fine_tuned(case, causes if name.startswith("D∖C") else causes[:0], **options)
    return [(pull, measure, value) for measure, value in case.accuracies(model).items()]


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import BLACK, axes_of, crosses, labelled, saved

    figure, axes = axes_of(7, 5, 1)
    for name, marker in MARKS.items():
        pulls = sorted({row.k for row in rows if row.method == name})
        points = crosses(axes[0], rows, name, pulls, color=BLACK, marker=marker, markersize=7, linestyle="none",
                     label=name)  # fmt: skip
        for pull, point in zip(pulls, points if name == "failures" else (), strict=False):
            axes[0].annotate(
                f"p = {pull:g}", point, textcoords="offset points", xytext=(-6, -11), fontsize=8.5, ha="right"
            )
    labelled(axes[0], f"Trained further on, {plan.on}", "accuracy on failures never shown", "accuracy on what worked")
    axes[0].legend(fontsize=9, loc="lower left")
    axes[0].margins(x=0.15, y=0.1)
    shown = FEW if plan.about.large else PULLS
    columns: dict[str, Column] = {f"{m}, p = {p:g}": (m, p) for m in ("holdout", "remaining") for p in shown}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


if __name__ == "__main__":
    main("forget-and-learn")
