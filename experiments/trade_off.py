"""Treatment trade-off (Fig. 5). EWC-deletion and Newton removal over their step size γ, treated alike.

    python -m experiments.trade_off --data DIR --seeds 0 1 2 3 4

Labels are flipped as in `annotation_noise.py`; the causes are the first 15 % by EWC-influence. Each treatment is run in
three ways. `plain` is as in the paper: EWC-deletion stops by a tenth of the query, Newton removal is one step.
`guarded` may cost two points of the right images that methods may read. `searched` chooses among lengths within that
guard: points on a path of small steps, or Newton steps from a sixteenth to 32 times γ. Fine-tuning on D∖C is the
reference; SISA, an average of networks trained on parts of D, is shown too. In `stopped by accuracy` EWC-deletion is as
in `plain`, but stops by the accuracy on that tenth, not by its likelihood: the paper's main text says so, and its
appendix leaves it open. In the table, k is γ. The paper's γ go from
.01 to .05. If its log p(C) is a mean over C, they must be divided by |C| here, where it is a sum.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from amends import methods
from amends.algorithm.identify import held_out
from amends.algorithm.treat import treat, treatment
from amends.curvature import GGN, Diagonal, Empirical
from amends.editors import Step
from amends.editors.follow import Right, Watch
from amends.errors import NonFinite, NotConverged
from amends.evidence.prepare import prepare
from amends.methods.library.newton import SIZES
from amends.posteriors import Posterior
from experiments import sisa
from experiments.protocol import NOTHING, Case, batch_size, fine_tuned, flipped_labels
from experiments.rankings import chosen, first, of_a_part, patient
from experiments.running import LATE, GivenUp, Plan, Row, Rows, Values, main
from experiments.shared import Remembered, Steps
from experiments.tables import Column
from experiments.tables import saved as table

CAUSES, SHARE = "ewc", 0.15
GAMMAS = (1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 0.001, 0.003, 0.01, 0.02, 0.03, 0.05, 0.1)
FEW = (0.01, 1e-5, 0.05)  # γ of a large network, fewer to save time; in this order
STEPS = (1e-6, 1e-5, 1e-4, 0.001, 0.003, 0.01, 0.05)  # γ of its Newton steps, which share one direction
TUNED, SISA = "fine-tuned on D∖C", f"SISA, {sisa.SHARDS} shards"
REFERENCES = {TUNED: "*", NOTHING: "x", SISA: "P"}
BY_ACCURACY = "EWC-deletion, stopped by accuracy"


@dataclass(frozen=True)
class Way:
    """A treatment for each γ, and how it is drawn: a hollow mark if nothing guards what worked."""

    make: Callable[[Case, float], Any]
    marker: str
    hollow: bool = False


def ewc(case: Case, method: Any, kind: Any, gamma: float) -> Any:
    """The method unchanged; for a large network, with the diagonal measured on a part of D."""
    if not case.about.large:
        return method
    diagonal = of_a_part(case, Diagonal(kind))
    return method._replace(remember=Remembered(f"curvature, {kind}", diagonal, case.cache, gamma))


def printed(case: Case, gamma: float) -> Any:
    return ewc(case, methods.ewc_as_printed(gamma=gamma), Empirical(), gamma)


def searched(case: Case, gamma: float) -> Any:
    return ewc(case, methods.ewc(gamma=gamma), GGN(), gamma)


def newton(case: Case, gamma: float, sizes: tuple[float, ...] = (1.0,)) -> Any:
    """Newton removal by conjugate gradients; for a large network, with Kronecker factors of a part of D."""
    method, step = methods.newton(gamma=gamma), Step(gamma, sizes)
    if not case.about.large:
        return method._replace(editor=step)
    factors = Remembered("factors", of_a_part(case, methods.kronecker()), case.cache)
    return method._replace(remember=factors, editor=Steps("Newton step", step, case.cache))


WHOLE_OR_NOTHING = (1e-9, 1.0)  # sizes of a Newton step: all of it if the guard allows it, else practically none


WAYS = {
    "EWC-deletion, plain": Way(printed, "o", hollow=True),
    BY_ACCURACY: Way(printed, "D", hollow=True),
    "EWC-deletion, guarded": Way(lambda c, g: printed(c, g)._replace(guarded=True), "^"),
    "EWC-deletion, searched": Way(searched, "s"),
    "Newton removal, plain": Way(newton, "o", hollow=True),
    "Newton removal, guarded": Way(lambda c, g: newton(c, g, WHOLE_OR_NOTHING), "^"),
    "Newton removal, searched": Way(lambda c, g: newton(c, g, SIZES), "s"),
}


def names(plan: Plan) -> tuple[str, ...]:
    return chosen(plan.methods, (*REFERENCES, *WAYS), (*REFERENCES, *WAYS))


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Values:
        case = plan.case(seed, flipped_labels)
        causes = first(case, CAUSES, SHARE)
        if name in WAYS:
            return over_gamma(case, causes, name, gammas(plan, name), rows)
        model = (
            sisa.without(case, causes) if name == SISA else fine_tuned(case, causes if name == TUNED else causes[:0])
        )
        return [(0, measure, value) for measure, value in case.accuracies(model).items()]

    rows.fill(names(plan), row)


def gammas(plan: Plan, name: str) -> tuple[float, ...]:
    if not plan.about.large:
        return GAMMAS
    return STEPS if name in ("Newton removal, plain", "Newton removal, guarded") else FEW


def over_gamma(case: Case, causes: np.ndarray, name: str, values: tuple[float, ...], rows: Rows) -> Values:
    """Rows for each γ, until one is given up. Each is stored as soon as it is computed, so the next run continues from
    there."""
    stored = [row for row in rows.rows if row.method == name and (row.measure != LATE or row.value == math.inf)]
    measured = [(row.k, row.measure, row.value) for row in stored]
    todo = [gamma for gamma in values if gamma not in {row.k for row in stored}]
    for gamma in todo:
        try:
            with patient(case.patience):
                measured += deleted(case, causes, name, gamma)
        except GivenUp as why:
            print(f"γ = {gamma:g} is given up: {why}", file=sys.stderr, flush=True)
            return [*measured, (gamma, LATE, why.seconds)]
        if gamma != todo[-1]:
            rows.add(name, [*measured, (todo[-1], LATE, 0)])
    return measured


def deleted(case: Case, causes: np.ndarray, name: str, gamma: float) -> Values:
    """Accuracies once the causes are deleted; a row "given up" if the weights diverged."""
    method = WAYS[name].make(case, gamma)
    try:
        if name == BY_ACCURACY:
            model = stopped_by_accuracy(case, causes, method)
        else:
            model = treat(
                case.net, case.train, causes, failures=case.sets["query"], remaining=case.sets["guard"],
                method=method, batch_size=batch_size(case), progress=False,
            )  # fmt: skip
    except (NonFinite, NotConverged):
        return [(gamma, LATE, math.inf)]
    return [(gamma, measure, value) for measure, value in case.accuracies(model).items()]


def stopped_by_accuracy(case: Case, causes: np.ndarray, method: Any) -> nn.Module:
    """The deletion, ended after five epochs without a higher accuracy on the held-out tenth of the query."""
    sets = prepare(case.net, None, None, batch_size(case), train=case.train, failures=case.sets["query"])
    train, (_, held) = sets["train"], held_out(sets["failures"], method.hold)
    q = method.remember(train, None)
    end = treatment(q, method.editor, train[causes], Higher(Right(held.evidence)), patience=method.patience)
    return train.network.module_with(end.mean, case.net)


@dataclass(eq=False)
class Higher:
    """A watch that takes only what is higher than everything before."""

    inner: Watch
    best: float | None = None

    def __call__(self, posterior: Posterior) -> float | None:
        value = self.inner(posterior)
        if value is None or (self.best is not None and value <= self.best):
            return None
        self.best = value
        return value


def front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The Pareto front: the points that no other point beats on both axes, from least fixed to most fixed."""
    best: list[tuple[float, float]] = []
    for fixed, kept in sorted(points, reverse=True):
        if not best or kept > best[-1][1]:
            best.append((fixed, kept))
    return best[::-1]


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    from experiments.figures import legend, panels, saved

    figure, axes = panels(9, 8.4, ("ab", "cc"), (1, 1))
    plane(axes["a"], rows, "a. all γ", GAMMAS)
    plane(axes["b"], rows, "b. γ from .01 to .05, as in the paper", [g for g in GAMMAS if 0.01 <= g <= 0.05])
    plane(axes["c"], rows, "c. all γ, where at least .95 of what worked is left", GAMMAS)
    axes["c"].set_ylim(0.95, 1.003)
    legend(figure, axes["a"])
    shown = sorted(FEW) if plan.about.large else (3e-4, 0.001, 0.003, 0.01, 0.05)
    columns: dict[str, Column] = {f"{m}, γ = {g:g}": (m, g) for m in ("holdout", "remaining") for g in shown}
    return [saved(figure, plan.folder / "figure.png"), table(plan.folder / "table.md", rows, columns)]


def plane(ax: Any, rows: list[Row], title: str, values: Sequence[float]) -> None:
    """Every treatment for these γ, with the references and the front of each kind of treatment."""
    from experiments.figures import BLACK, TREATMENTS, crosses, labelled

    points: dict[str, list[tuple[float, float]]] = {kind: [] for kind in TREATMENTS}
    for name, way in WAYS.items():
        kind, measured = name.split(",")[0], {row.k for row in rows if row.method == name and row.measure == "holdout"}
        drawn_as = {"color": TREATMENTS[kind], "marker": way.marker, "linestyle": "-" if way.hollow else "none"}
        if measured:
            points[kind] += crosses(ax, rows, name, sorted(measured & set(values)), label=name, linewidth=0.8,
                                    markerfacecolor="none" if way.hollow else TREATMENTS[kind], **drawn_as)  # fmt: skip
    for name, marker in REFERENCES.items():
        if any(row.method == name for row in rows):
            crosses(ax, rows, name, (0,), color=BLACK, marker=marker, markersize=9, linestyle="none", label=name)
    for kind, colour in TREATMENTS.items():
        best = np.array(front(points[kind])).reshape(-1, 2)
        ax.step(*best.T, color=colour, linewidth=4, alpha=0.25, zorder=0, label=f"front of {kind}")
    labelled(ax, title, "accuracy on failures never shown", "accuracy on what worked")


if __name__ == "__main__":
    main("trade-off")
