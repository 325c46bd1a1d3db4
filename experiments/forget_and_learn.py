"""Forget and learn (appendix). The network learns from the failures, forgets the causes, or does both.

    python -m experiments.forget_and_learn --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`; the causes are the first 15 % by EWC-influence. On the failures alone
the network is held near its start by a pull of ½ p ‖θ − θ̂‖², for several p. Rows of the table: k is p.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.protocol import Case, fine_tuned, flipped_labels
from experiments.rankings import chosen, first
from experiments.running import Found, Plan, Row, Rows, main
from experiments.tables import Column
from experiments.tables import saved as table

CAUSES, SHARE = "ewc", 0.15
PULLS = (0.0, 100.0, 1e3, 1e4, 1e5)
FEW = (0.0, 1e4)  # of a large network, for the time it takes
WAYS: dict[str, dict[str, Any]] = {
    "nothing removed": {},
    "D∖C": {},
    "failures": {"learn": True, "kept": False},
    "D∖C and failures": {"learn": True},
}
LOOKS = {"nothing removed": ("#7f7f7f", "x"), "D∖C": ("#e6b800", "o"), "failures": ("#000000", "o"),
         "D∖C and failures": ("#8c564b", "s")}  # fmt: skip


def names(plan: Plan) -> tuple[str, ...]:
    return chosen(plan.methods, WAYS, tuple(WAYS))


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Found:
        case = plan.case(seed, flipped_labels)
        pulls = (FEW if plan.about.large else PULLS) if name == "failures" else PULLS[:1]
        return [found for pull in pulls for found in treated(case, first(case, CAUSES, SHARE), name, pull)]

    rows.fill(names(plan), row)


def treated(case: Case, causes: np.ndarray, name: str, pull: float) -> Found:
    """On the failures alone an epoch is short, so that it makes as many steps as the others make."""
    options = {**WAYS[name], "pull": pull}
    if name == "failures":
        epochs = case.about.tuning.get("epochs", 10) * len(case.wrong) / len(case.sets["query"][1])
        options |= {"epochs": epochs}
    model = fine_tuned(case, causes if name.startswith("D∖C") else causes[:0], **options)
    return [(pull, measure, value) for measure, value in case.accuracies(model).items()]


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import axes_of, labelled, over_seeds, saved

    figure, axes = axes_of(6, 5, 1)
    for name, (colour, marker) in LOOKS.items():
        pulls, kept, _ = over_seeds(rows, name, "remaining")
        _, fixed, _ = over_seeds(rows, name, "holdout")
        axes[0].scatter(fixed, kept, color=colour, marker=marker, label=name, zorder=3)
        for pull, a, b in zip(pulls, fixed, kept, strict=True):
            if name == "failures":
                axes[0].annotate(f"p = {pull:g}", (a, b), textcoords="offset points", xytext=(6, -3), fontsize=8)
    labelled(axes[0], f"Trained further on, {plan.on}", "accuracy on failures never shown", "accuracy on what worked")
    axes[0].legend(fontsize=9)
    axes[0].margins(x=0.15, y=0.1)
    shown = FEW if plan.about.large else PULLS
    columns: dict[str, Column] = {f"{m}, p = {p:g}": (m, p) for m in ("holdout", "remaining") for p in shown}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


if __name__ == "__main__":
    main("forget-and-learn")
