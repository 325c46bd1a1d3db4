"""Specificity. Causes of one kind of failure are removed: is that kind fixed, and what becomes of the others?

    python -m experiments.specificity --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`, so failures come in kinds: class a predicted as b. A method sees half of
the failures of one kind. The first 5 % of the training set in its ranking are removed, and the network is trained
further without them. Four sets judge: the other half of the kind, failures of the other kinds, all other failures, and
images the network got right.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from experiments.protocol import NOTHING, Case, fine_tuned, flipped_labels, outputs
from experiments.rankings import EVERY, chosen, rank
from experiments.running import GivenUp, Plan, Row, Rows, Values, main
from experiments.sets import SETS
from experiments.tables import Column
from experiments.tables import saved as table

REMOVED = 0.05
FEW = 10  # failures a kind must have: half to search with, half to judge
USUAL = (NOTHING, "ewc_as_printed", "default", "random")
JUDGES = ("this kind", "other kinds", "other failures", "what worked")


def kinds(on: str) -> dict[str, tuple[int, int]]:
    about = SETS[on]
    return {f"{about.classes[a]} called {about.classes[b]}": (a, b) for a, b in about.confusion}


def searched(on: str) -> list[str]:
    """The kinds that are searched with: all of them, or two for a large network, to save time."""
    return list(kinds(on))[: 2 if SETS[on].large else None]


def names(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys((NOTHING, *chosen(plan.methods, (NOTHING, *EVERY), USUAL))))


def parts(plan: Plan, name: str) -> list[str]:
    """The names under which a row is stored."""
    return [f"{name}: {kind}" for kind in searched(plan.on)]


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Values:
        return judged(plan.case(seed, flipped_labels), *name.split(": "))

    rows.fill([part for name in names(plan) for part in parts(plan, name)], row)


def judged(case: Case, name: str, kind: str) -> Values:
    """Rows: the accuracy on each set afterwards, and which wrong labels were removed."""
    truth, device = case.data.test[1], case.train[0].device
    of_kind = {
        k: np.flatnonzero((truth == a) & (case.predicted == b)) for k, (a, b) in kinds(case.data.start.on).items()
    }
    same_kind = of_kind[kind]
    if len(same_kind) < FEW:
        raise GivenUp(f"{len(same_kind)} failures of this kind, fewer than {FEW}")
    xt, yt = (torch.tensor(part, device=device) for part in case.data.test)
    shown = torch.tensor(same_kind[::2], device=device)
    causes = np.zeros(0, dtype=int)
    if name != NOTHING:
        scores, _ = rank(case, name, (xt[shown], yt[shown]))
        causes = np.argsort(-scores, kind="stable")[: round(REMOVED * len(scores))]
    model = fine_tuned(case, causes)
    right = outputs(model, xt).argmax(1).cpu().numpy() == truth
    failures = np.flatnonzero(case.predicted != truth)
    sets = {"this kind": same_kind[1::2], "other kinds": np.concatenate([v for k, v in of_kind.items() if k != kind]),
            "other failures": np.setdiff1d(failures, np.concatenate(list(of_kind.values())))}  # fmt: skip
    a, b = kinds(case.data.start.on)[kind]
    wrong_here = case.wrong & (case.data.true == a) & (case.data.train[1] == b)
    return [*((len(causes), judge, right[examples].mean()) for judge, examples in sets.items() if len(examples)),
            (len(causes), "what worked", case.accuracies(model)["remaining"]),
            (len(causes), "wrong labels of this kind", wrong_here.sum()),
            (len(causes), "removed, of this kind", wrong_here[causes].sum()),
            (len(causes), "removed, of other kinds", (case.wrong & ~wrong_here)[causes].sum())]  # fmt: skip


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import axes_of, dots, labelled, legend, saved

    stored = dict.fromkeys(row.method.split(": ")[0] for row in rows)
    shown = [name for name in dict.fromkeys((*USUAL, *stored)) if name in stored]
    figure, axes = axes_of(9.5, 1.6 + 0.36 * len(shown), len(JUDGES))
    for ax, judge in zip(axes, JUDGES, strict=True):
        accuracies = {kind.replace(" called ", "→"): {name: [r.value for r in rows if (r.method, r.measure) ==
                 (f"{name}: {kind}", judge)] for name in shown} for kind in searched(plan.on)}  # fmt: skip
        dots(ax, shown, accuracies, named=judge == JUDGES[0])
        if judge != "what worked":  # all of it near 1
            ax.set_xlim(-0.03, 1.03)
        labelled(ax, judge, "accuracy afterwards", "")
    figure.suptitle(f"Causes removed that were found with the failures of one kind (mark), {plan.on}", fontsize=11)
    legend(figure, axes[0])
    columns: dict[str, Column] = {m: (m, None) for m in (*JUDGES, "removed, of this kind", "removed, of other kinds")}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


if __name__ == "__main__":
    main("specificity")
