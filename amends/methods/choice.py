"""What is used when nothing is asked for, and every method by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amends.climb import LBFGS
from amends.curvature import GGN, Damped, Diagonal, Kronecker, Once
from amends.editors import Mode
from amends.methods import edits, quick, solvers, treatments
from amends.methods.base import Method, Scorer
from amends.methods.edits import ewc, functional
from amends.methods.treatments import fine_tune
from amends.posteriors import Curvature
from amends.ratio import label_part
from amends.remember import Laplace, Predictions


@dataclass(frozen=True)
class Default:
    """Our choice for either step, made where it is known what was given."""

    def identifying(self, remaining: bool) -> dict[str, Method]:
        """A committee: the infinitesimal edit with two curvatures, and finite edits that hold weights,
        predictions on held-out right examples (where there are any), or both.

        The failures weigh as much as all of D, so that few of them move the model too, and every
        member scores by the part of r̃ that the example's own label is to blame for.
        """
        diagonal, kronecker = Once(Diagonal(GGN())), Once(Kronecker(GGN()))
        members = {
            "grad_dot": quick.grad_dot(),
            "linear": quick.linear(Damped(kronecker, 10.0)),
            "ewc": Method(Laplace(diagonal), Mode()),
            "kfac_ewc": Method(Laplace(kronecker), Mode()),
        }
        if remaining:
            held, climb = 0.05, LBFGS(steps=40)
            members["functional"] = functional(held)
            members["functional + ewc"] = Method(Predictions(held, laplace=Laplace(diagonal)), Mode(climb))
        return {name: m._replace(mass=1.0, score=label_part) for name, m in members.items()}

    def treating(self, seed: int = 0) -> Method:
        """Fine-tuning on what is kept."""
        return fine_tune(seed=seed)


def default() -> Default:
    """What `identify` and `treat` use when told nothing."""
    return Default()


Maker = Callable[[], Method | Scorer | Default]


def _named(*makers: Maker) -> dict[str, Maker]:
    return {maker.__name__: maker for maker in makers}


BOTH = _named(
    default, ewc, edits.ewc_as_printed, edits.kfac_ewc, edits.kfac_ewc_as_printed, edits.online_ewc, edits.si,
    edits.vcl, edits.ogd, functional, edits.ensemble,
)  # fmt: skip
IDENTIFY = BOTH | _named(
    quick.linear, quick.grad_dot, quick.fisher_kernel, quick.relatif, quick.tracin, quick.sgd_influence,
    edits.laplace_mc, quick.shapley, quick.sufficiency, quick.loss, quick.self_confidence, quick.random,
)  # fmt: skip
TREAT = BOTH | _named(fine_tune, treatments.newton, treatments.retrain)
BY_NAME = IDENTIFY | TREAT
SOLVERS: dict[str, Callable[[], Curvature]] = {
    s.__name__: s
    for s in (
        solvers.gd, solvers.sa, solvers.cg, solvers.diagonal, solvers.kronecker, solvers.ekfac, solvers.dense,
    )
}  # fmt: skip


def named(name: str, solver: str | None = None) -> Any:
    """A method by its name, for a command line; `solver` goes to linear influence and to Newton removal,
    whose step is then searched for, since nobody gives its size."""
    chosen = None if solver is None else SOLVERS[solver]()
    if name == "newton":
        return treatments.newton(chosen, line_search=True)
    return quick.linear(chosen) if name == "linear" else BY_NAME[name]()
