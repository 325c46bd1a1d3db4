"""Annotation noise (Fig. 2). Labels are flipped between similar classes; which method finds them?

    python -m experiments.annotation_noise --data DIR --seeds 0 1 2 3 4

The confusion matrices are ours, since the paper shows its own only in a figure: 1→7, 9→4, 3→5 and 6→0 at 30 % in MNIST;
cat→dog, plane→bird, truck→car and deer→horse at 40 % in CIFAR-10. A method sees half of the failures and ranks the
training set. It is judged by how many of the first k examples have a wrong label.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.protocol import Case, flipped_labels, outputs
from experiments.rankings import chosen, found, ranked
from experiments.running import Plan, Row, Rows, Values, main
from experiments.tables import Column
from experiments.tables import saved as table

SHOWN = 16
GALLERY = ("ewc_as_printed", "ewc", "default")


def names(plan: Plan) -> tuple[str, ...]:
    return chosen(plan.methods)


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Values:
        case = plan.case(seed, flipped_labels)
        if name == "base":
            return about(case)
        scores, seconds = ranked(case, name)
        if name in GALLERY:
            order = np.argsort(-scores, kind="stable")
            for end, at in (("most", order[:SHOWN]), ("least", order[-SHOWN:])):
                key, given, true = f"{name}, {end}", case.data.train[1][at], case.data.true[at]
                rows.pictures(**{key: case.data.images[at], f"{key} damaged": case.wrong[at],
                                 f"{key} given": given, f"{key} true": true})  # fmt: skip
        return [(0, "seconds", seconds), *found(case, scores)]

    rows.fill(["base", *names(plan)], row)


def about(case: Case) -> Values:
    x, y = case.train
    fitted = (outputs(case.net, x).argmax(1) == y).cpu().numpy()
    truth = case.data.test[1]
    counts = np.bincount(truth[case.predicted != truth], minlength=len(case.about.classes))
    return [(0, "accuracy", case.accuracy), (0, "wrong labels", case.wrong.sum()),
            (0, "wrong labels given back", fitted[case.wrong].mean()),
            *((c, "failures of class", n) for c, n in enumerate(counts))]  # fmt: skip


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import best_first, curves, dots, height, labelled, legend, matrix, panels, saved, series

    about, measure = plan.about, "average precision"
    precisions = series(rows, measure, (0,))
    tall = max(3.4, height(precisions))
    figure, axes = panels(9, 4.2 + tall, ("ab", "cd"), (4, tall))
    matrix(axes["a"], about.confusion, about.classes)
    failures(axes["b"], rows, about.classes)
    curves(axes["c"], rows, "damaged")
    axes["c"].set_xlim(0, about.sizes[-1])
    axes["c"].set_ylim(0, 1.05)
    axes["c"].locator_params("x", nbins=5)
    labelled(axes["c"], "c. wrong labels among the first k", "k, most harmful first", "share of the first k")
    dots(axes["d"], best_first(precisions), precisions)
    axes["d"].set_xlim(0, 1.03)
    labelled(axes["d"], "d. every method: average precision", measure, "")
    legend(figure, axes["c"], *([axes["d"]] if len(precisions) > 1 else []))
    columns: dict[str, Column] = {measure: (measure, 0)}
    columns |= {f"wrong labels of the first {k}": ("damaged", k) for k in about.sizes}
    files = [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]
    stored = plan.folder / f"seed_{rows[0].seed}.npz"
    return [*files, *gallery(plan, dict(np.load(stored)))] if stored.exists() else files


def failures(ax: Any, rows: list[Row], classes: tuple[str, ...]) -> None:
    from experiments.figures import BLACK, labelled, over_seeds

    at, counts, deviation = over_seeds(rows, "base", "failures of class")
    ax.bar(at, counts, yerr=deviation, color="none", edgecolor=BLACK, hatch="///", ecolor=BLACK)
    labelled(ax, "b. failures of each class", "true class", "test images")
    ax.set_xticks(at, classes, rotation=0 if len(classes[0]) == 1 else 60)


def gallery(plan: Plan, pictures: dict[str, np.ndarray]) -> list[Path]:
    """The most and the least harmful examples of each method, with their labels."""
    from experiments.figures import axes_of, images, saved, style

    shown = [name for name in GALLERY if f"{name}, most" in pictures]
    figure, axes = axes_of(9, 1.75 * len(shown), 2, len(shown))
    for ax, (name, end) in zip(axes.flat, ((n, e) for n in shown for e in ("most", "least")), strict=True):
        key, classes = f"{name}, {end}", plan.about.classes
        given, true = (pictures.get(f"{key} {which}", ()) for which in ("given", "true"))
        captions = [classes[b] if a == b else f"{classes[a]}→{classes[b]}" for a, b in zip(true, given, strict=True)]
        images(ax, pictures[key], f"{end} harmful: {style(name)[0]}", 8, pictures[f"{key} damaged"], captions)
    return [saved(figure, plan.folder / "most_and_least_harmful.png")]


if __name__ == "__main__":
    main("annotation-noise")
