"""Specificity. Causes of one kind of failure are removed: is that kind fixed, and what becomes of the others?

    python -m experiments.specificity --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`, so that failures come in kinds: of class a, called b. A method sees half
of the failures of one kind, its first 5 % of the training set are removed, and the network goes on training without
them. What judges: the other half of the kind, failures of the other kinds, all other failures, and images the network
got right.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from experiments.protocol import NOTHING, Case, fine_tuned, flipped_labels, outputs
from experiments.rankings import EVERY, chosen, rank
from experiments.running import Found, GivenUp, Plan, Row, Rows, main
from experiments.sets import SETS
from experiments.tables import Column
from experiments.tables import saved as table

REMOVED = 0.05
FEW = 10  # failures a kind must have, to be searched with and to judge
USUAL = (NOTHING, "ewc_as_printed", "default", "random")
JUDGES = ("this kind", "other kinds", "other failures", "what worked")


def kinds(on: str) -> dict[str, tuple[int, int]]:
    about = SETS[on]
    return {f"{about.classes[a]} called {about.classes[b]}": (a, b) for a, b in about.confusion}


def searched(on: str) -> list[str]:
    """The kinds that are searched with: all, or two where the network is large, for the time it takes."""
    return list(kinds(on))[: 2 if SETS[on].large else None]


def names(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys((NOTHING, *chosen(plan.methods, (NOTHING, *EVERY), USUAL))))


def parts(plan: Plan, name: str) -> list[str]:
    """What a row is stored as."""
    return [f"{name}: {kind}" for kind in searched(plan.on)]


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Found:
        return judged(plan.case(seed, flipped_labels), *name.split(": "))

    rows.fill([part for name in names(plan) for part in parts(plan, name)], row)


def judged(case: Case, name: str, kind: str) -> Found:
    """What is right afterwards of each set, and which wrong labels were removed."""
    truth, device = case.data.test[1], case.train[0].device
    of_kind = {k: np.flatnonzero((truth == a) & (case.said == b)) for k, (a, b) in kinds(case.data.start.on).items()}
    own = of_kind[kind]
    if len(own) < FEW:
        raise GivenUp(f"{len(own)} failures of this kind, fewer than {FEW}")
    xt, yt = (torch.tensor(part, device=device) for part in case.data.test)
    shown = torch.tensor(own[::2], device=device)
    causes = np.zeros(0, dtype=int)
    if name != NOTHING:
        scores, _ = rank(case, name, (xt[shown], yt[shown]))
        causes = np.argsort(-scores, kind="stable")[: round(REMOVED * len(scores))]
    model = fine_tuned(case, causes)
    right = outputs(model, xt).argmax(1).cpu().numpy() == truth
    every = np.flatnonzero(case.said != truth)
    sets = {"this kind": own[1::2], "other kinds": np.concatenate([v for k, v in of_kind.items() if k != kind]),
            "other failures": np.setdiff1d(every, np.concatenate(list(of_kind.values())))}  # fmt: skip
    a, b = kinds(case.data.start.on)[kind]
    this = case.wrong & (case.data.true == a) & (case.data.train[1] == b)
    return [*((len(causes), judge, right[at].mean()) for judge, at in sets.items() if len(at)),
            (len(causes), "what worked", case.accuracies(model)["remaining"]),
            (len(causes), "wrong labels of this kind", this.sum()),
            (len(causes), "removed, of this kind", this[causes].sum()),
            (len(causes), "removed, of other kinds", (case.wrong & ~this)[causes].sum())]  # fmt: skip


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import axes_of, dots, labelled, legend, saved

    made = dict.fromkeys(row.method.split(": ")[0] for row in rows)
    shown = [name for name in dict.fromkeys((*USUAL, *made)) if name in made]
    figure, axes = axes_of(9.5, 1.6 + 0.36 * len(shown), len(JUDGES))
    for ax, judge in zip(axes, JUDGES, strict=True):
        found = {kind.replace(" called ", "→"): {name: [r.value for r in rows if (r.method, r.measure) ==
                 (f"{name}: {kind}", judge)] for name in shown} for kind in searched(plan.on)}  # fmt: skip
        dots(ax, shown, found, said=judge == JUDGES[0])
        if judge != "what worked":  # all of it near 1
            ax.set_xlim(-0.03, 1.03)
        labelled(ax, judge, "accuracy afterwards", "")
    figure.suptitle(f"Causes removed that were found with the failures of one kind (mark), {plan.on}", fontsize=11)
    legend(figure, axes[0])
    columns: dict[str, Column] = {m: (m, None) for m in (*JUDGES, "removed, of this kind", "removed, of other kinds")}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


if __name__ == "__main__":
    main("specificity")
