"""Fig. 4, for both kinds of damaged inputs: are they found, and what does removing the causes repair?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments.protocol import AGAIN, NOTHING, REFERENCE, Case, Damaged, Start, after, outputs, trained
from experiments.rankings import EVERY, USUAL, chosen, found, ranked
from experiments.running import Plan, Row, Rows, Values
from experiments.tables import Column, removed
from experiments.tables import saved as table

SHOWN = 16


def one_seed(plan: Plan, seed: int, rows: Rows, damage: Callable[[Start], Damaged]) -> None:
    """Rows ii to iv of the figure for every method, with three references."""

    def row(name: str) -> Values:
        case = plan.case(seed, damage)
        at = np.flatnonzero(case.wrong)
        if name == "base":
            rows.pictures(damaged=case.data.images[at[:SHOWN]])
            return about(case)
        if name in (NOTHING, REFERENCE):
            return after(case, at if name == REFERENCE else at[:0])
        if name == AGAIN:
            return [(len(at), measure, value) for measure, value in without(case).items()]
        return one_method(plan, case, name, rows)

    rows.fill(dict.fromkeys(["base", NOTHING, REFERENCE, *([] if plan.about.large else [AGAIN]), *names(plan)]), row)


def names(plan: Plan) -> tuple[str, ...]:
    """Training a large network again takes longer than most methods, so this row comes last, or is made when asked
    for."""
    last = (AGAIN,) if plan.about.large else ()
    return chosen(plan.methods, (*EVERY, *last), (*USUAL, *last))


def asked(plan: Plan) -> tuple[int, ...]:
    """The numbers of causes to remove: the largest of the data set, as in the paper, and a smaller one, unless others
    are given."""
    return plan.sizes or tuple(dict.fromkeys((plan.removed[1], plan.removed[-1])))


def about(case: Case) -> Values:
    x, y = case.train
    fitted = (outputs(case.net, x).argmax(1) == y).cpu().numpy()
    sizes = [(0, f"size of {name}", len(part[1])) for name, part in case.sets.items()]
    return [(0, "accuracy", case.accuracy), (0, "damaged", int(case.wrong.sum())),
            (0, "label changed", int((case.data.train[1] != case.data.true).sum())),
            (0, "fitted, damaged", float(fitted[case.wrong].mean())),
            (0, "fitted, others", float(fitted[~case.wrong].mean())), *sizes]  # fmt: skip


def one_method(plan: Plan, case: Case, name: str, rows: Rows) -> Values:
    scores, seconds = ranked(case, name)
    order = np.argsort(-scores, kind="stable")
    inside = np.isin(case.data.true[order], case.about.noisy)
    values = [(0, "seconds", seconds), *found(case, scores)]
    values += [(k, "of the noisy classes", float(inside[:k].mean())) for k in (SHOWN, *asked(plan))]
    if name != "oracle":  # it does not order the damaged examples, so its first k are arbitrary
        for k in asked(plan):
            values += after(case, order[:k])
    rows.pictures(
        **{f"{name}, most": case.data.images[order[:SHOWN]], f"{name}, most damaged": case.wrong[order[:SHOWN]]}
    )
    return values


def without(case: Case) -> dict[str, float]:
    """Accuracies of a network that never saw the damaged examples."""
    data, kept = case.data, ~case.wrong
    clean = Damaged(data.start, f"{data.kind}_less", (data.train[0][kept], data.train[1][kept]), case.wrong[kept],
                    data.images[kept], data.true[kept], data.test)  # fmt: skip
    return case.accuracies(trained(clean, data.start.seed)[0])


def with_all(rows: list[Row]) -> list[Row]:
    """The rows, and new ones for the whole test set, computed from its parts; there, `remaining` stands for every image
    the network got right. Seeds whose sizes of the parts are not stored are left out."""
    sizes = {(r.seed, r.measure.removeprefix("size of ")): r.value for r in rows if r.measure.startswith("size of ")}
    values = {(r.seed, r.method, r.k, r.measure): r.value for r in rows}
    new = []
    todo = dict.fromkeys((r.seed, r.method, r.k) for r in rows if r.measure == "holdout" and (r.seed, "guard") in sizes)
    for seed, method, k in todo:
        shares = {part: values[seed, method, k, part] for part in ("query", "holdout", "other", "remaining")}
        right = sum(shares[part] * sizes[seed, part] for part in shares) + shares["remaining"] * sizes[seed, "guard"]
        new.append(
            Row(seed, method, k, "all test images", right / sum(sizes[seed, part] for part in (*shares, "guard")))
        )
    return [*rows, *new]


def draw(plan: Plan, rows: list[Row], damage: str) -> list[Path]:
    """Rows i to iv of the figure, and the most harmful examples."""
    sizes = removed(rows)
    stored = dict(np.load(plan.folder / f"seed_{rows[0].seed}.npz"))
    most = sizes[-1]
    columns: dict[str, Column] = {f"damaged of the first {k}": ("damaged", k) for k in sizes}
    columns |= {f"of the noisy classes, first {most}": ("of the noisy classes", most)}
    columns |= {f"{m}, {k} removed": (m, k) for m in ("holdout", "remaining", "all test images") for k in sizes}
    files = [figure_of(plan, rows, damage, stored), table(plan.folder / "table.md", with_all(rows), columns)]
    return [*files, *gallery(plan, stored)]


def figure_of(plan: Plan, rows: list[Row], damage: str, stored: dict[str, np.ndarray]) -> Path:
    from experiments.figures import best_first, curves, dots, height, images, labelled, legend, panels, saved, series

    sizes = removed(rows)
    shares = {measure: series(rows, measure, sizes) for measure in ("holdout", "remaining", "damaged")}
    names = list(dict.fromkeys(name for shown in shares.values() for name in best_first(shown)))
    tall = height(shares["holdout"])
    figure, axes = panels(9.5, 3.9 + tall, ("aaabbb", "ccddee"), (3.2, tall))
    axes["a"].set_axis_off()
    if "damaged" in stored:  # the pictures may have been made elsewhere
        images(axes["a"], stored["damaged"], f"i. {damage}, {plan.on}", across=4)
    curves(axes["b"], rows, "damaged")
    axes["b"].set_xlim(0, sizes[-1])
    top = 1.15 * highest(rows, sizes[0]) or 1.0
    axes["b"].set_ylim(-0.02 * top, top)
    axes["b"].locator_params("x", nbins=5)
    labelled(axes["b"], "ii. damaged ones among the first k", "k, most harmful first", "share of the first k")
    shown = {"c": ("damaged", "ii. every method", "share of the first k"),
             "d": ("holdout", "iii. failures never shown", "accuracy without the first k"),
             "e": ("remaining", "iv. what worked", "accuracy without the first k")}  # fmt: skip
    for letter, (measure, title, x) in shown.items():
        dots(axes[letter], names, shares[measure], named=letter == "c")
        labelled(axes[letter], title, x, "")
    legend(figure, *axes.values())
    return saved(figure, plan.folder / "figure.png")


def highest(rows: list[Row], least: int) -> float:
    """The height the axis needs to show every method but the oracle from k = `least` on; among the very first, all may
    be damaged."""
    from experiments.figures import STYLE, over_seeds

    curves = [over_seeds(rows, name, "damaged") for name in set(STYLE) - {"oracle"}]
    return max((float(top) for k, mean, deviation in curves for top in (mean + deviation)[k >= least]), default=0)


def gallery(plan: Plan, stored: dict[str, np.ndarray]) -> list[Path]:
    from experiments.figures import axes_of, images, saved, style

    shown = [name for name in ("ewc_as_printed", "ewc", "default") if f"{name}, most" in stored]
    if not shown:
        return []
    figure, axes = axes_of(9, 0.95 * len(shown), 1, len(shown))
    for ax, name in zip(axes, shown, strict=True):
        images(ax, stored[f"{name}, most"], f"most harmful: {style(name)[0]}", SHOWN, stored[f"{name}, most damaged"])
    return [saved(figure, plan.folder / "most_harmful.png")]
