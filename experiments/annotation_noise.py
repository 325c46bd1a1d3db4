"""Annotation noise (Fig. 2). Labels are flipped between similar classes; which method finds them?

    python -m experiments.annotation_noise --data DIR --seeds 0 1 2 3 4

The confusion matrices are ours, since the paper's are in a figure alone: 1→7, 9→4, 3→5 and 6→0 at 30 % in MNIST;
cat→dog, plane→bird, truck→car and deer→horse at 40 % in CIFAR-10. A method sees half of the failures and ranks the
training set; what counts is how many of the first k have a wrong label.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.protocol import Case, flipped_labels, outputs
from experiments.rankings import chosen, found, ranked
from experiments.running import Found, Plan, Row, Rows, main
from experiments.tables import Column
from experiments.tables import saved as table

SHOWN = 16
GALLERY = ("ewc_as_printed", "ewc", "default")


def names(plan: Plan) -> tuple[str, ...]:
    return chosen(plan.methods)


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Found:
        case = plan.case(seed, flipped_labels)
        if name == "base":
            return about(case)
        scores, seconds = ranked(case, name)
        if name in GALLERY:
            order = np.argsort(-scores, kind="stable")
            for end, at in (("most", order[:SHOWN]), ("least", order[-SHOWN:])):
                rows.pictures(**{f"{name}, {end}": case.data.images[at], f"{name}, {end} damaged": case.wrong[at]})
        return [(0, "seconds", seconds), *found(case, scores)]

    rows.fill(["base", *names(plan)], row)


def about(case: Case) -> Found:
    x, y = case.train
    fitted = (outputs(case.net, x).argmax(1) == y).cpu().numpy()
    truth = case.data.test[1]
    counts = np.bincount(truth[case.said != truth], minlength=len(case.about.classes))
    return [(0, "accuracy", case.accuracy), (0, "wrong labels", case.wrong.sum()),
            (0, "wrong labels given back", fitted[case.wrong].mean()),
            *((c, "failures of class", n) for c, n in enumerate(counts))]  # fmt: skip


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import axes_of, curves, images, labelled, legend, matrix, over_seeds, saved, style

    about = plan.about
    figure, axes = axes_of(14, 4.8, 3)
    matrix(axes[0], about.confusion, about.classes)
    classes, counts, deviation = over_seeds(rows, "base", "failures of class")
    axes[1].bar(classes, counts, yerr=deviation, color="#7f7f7f")
    axes[1].set_xticks(classes, about.classes, rotation=0 if len(about.classes[0]) == 1 else 60)
    labelled(axes[1], "b. failures of each class", "true class", "test images")
    curves(axes[2], rows, "damaged")
    axes[2].set_xlim(0, about.sizes[-1])
    axes[2].set_ylim(0, 1.05)
    axes[2].locator_params("x", nbins=5)
    labelled(axes[2], "c. wrong labels among the first k", "k, most harmful first", "share of the first k")
    legend(figure, axes[2])
    columns: dict[str, Column] = {"average precision": ("average precision", 0)}
    columns |= {f"wrong labels of the first {k}": ("damaged", k) for k in about.sizes}
    made = [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]
    stored = plan.folder / f"seed_{rows[0].seed}.npz"
    if stored.exists():
        pictures = dict(np.load(stored))
        shown = [name for name in GALLERY if f"{name}, most" in pictures]
        figure, axes = axes_of(4.6 * len(shown), 4.2, len(shown), 2)
        for ax, (end, name) in zip(axes.flat, ((e, n) for e in ("most", "least") for n in shown), strict=True):
            title = f"{end} harmful: {style(name)[0]}"
            images(ax, pictures[f"{name}, {end}"], title, 8, pictures[f"{name}, {end} damaged"])
        made.append(saved(figure, plan.folder / "most_and_least_harmful.png"))
    return made


if __name__ == "__main__":
    main("annotation-noise")
