"""What is used when nothing is asked for, and every method by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

from amends.baselines import Shortfall
from amends.curvature import GGN, Damped, Diagonal, Kronecker, Once, Part
from amends.editors import Mode, Step
from amends.editors.climb import LBFGS
from amends.errors import BadInput
from amends.methods import edits, quick, solvers, treatments
from amends.methods.base import Method, Scorer
from amends.methods.edits import ewc, functional
from amends.methods.ratio import label_part
from amends.methods.treatments import fine_tune
from amends.posteriors import Curvature
from amends.remember import Laplace, Predictions

CURVED = 4000  # examples of D that the curvature of a large model is measured on
EPOCHS, SEEN = 10, 2**16  # passes over D a treatment makes, unless that is more than so many examples
MANY = 20_000  # examples from which its batches are larger
DAMPINGS = (1.0, 10.0)  # of Newton removal, relative to the mean of the curvature
NEWTON = tuple(2.0**k for k in range(-4, 1))  # its steps on the way to a whole one
RATES = (1e-4, 3e-5)  # for large models, whose weights move too far at the usual one


@dataclass(frozen=True)
class Default:
    """Our choice for either step, made where it is known what was given."""

    def identifying(self, remaining: bool, large: bool = False) -> dict[str, Method | Scorer]:
        """A committee: the infinitesimal edit with two curvatures, finite edits that hold weights, predictions on
        held-out right examples (where there are any), or both; and, with those, the example's own loss.

        The failures weigh as much as all of D, so that few of them move the model too, and every
        member scores by the part of r̃ that the example's own label is to blame for. For a large model
        curvature is measured on a part of D, and edits end after half as many steps.
        """
        diagonal, kronecker = (
            Once(Part(shape, CURVED) if large else shape) for shape in (Diagonal(GGN()), Kronecker(GGN()))
        )
        climb, shorter = (LBFGS(steps=steps // 2 if large else steps) for steps in (60, 40))
        members = {
            "grad_dot": quick.grad_dot(),
            "linear": quick.linear(Damped(kronecker, 10.0)),
            "ewc": Method(Laplace(diagonal), Mode(climb)),
            "kfac_ewc": Method(Laplace(kronecker), Mode(climb)),
        }
        if remaining:
            held = 0.05
            members["functional"] = functional(held, climb=shorter)
            members["functional + ewc"] = Method(Predictions(held, laplace=Laplace(diagonal)), Mode(shorter))
        heavy: dict[str, Method | Scorer] = {
            name: m._replace(mass=1.0, score=label_part) for name, m in members.items()
        }
        return {**heavy, "loss": Shortfall()} if remaining else heavy

    def treating(self, seed: int = 0, examples: int = 0) -> Method:
        """Fine-tuning on what is kept; where `examples` are many, in fewer passes and larger batches."""
        return _tuned(1e-3, seed, examples)

    def otherwise(self, seed: int = 0, examples: int = 0, large: bool = False) -> tuple[Method, ...]:
        """What a repair chooses from beside that: Newton removal first, as far as the guard allows, which
        undoes what was memorised; for a large model, smaller steps."""
        if large:
            return tuple(_tuned(rate, seed, examples) for rate in RATES)
        usual, kronecker = self.treating(seed, examples), Once(Kronecker(GGN()))
        return tuple(
            usual._replace(first=Method(Laplace(Damped(kronecker, damping)), Step(sizes=NEWTON)))
            for damping in DAMPINGS
        )


def _tuned(rate: float, seed: int, examples: int) -> Method:
    epochs = min(EPOCHS, max(1.0, SEEN / max(1, examples)))
    return fine_tune(rate, epochs, 64 if examples < MANY else 256, seed=seed)


def default() -> Default:
    """What `identify` and `treat` use when told nothing."""
    return Default()


Maker = Callable[..., Method | Scorer | Default]


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


def named(name: str, solver: str | None = None, **options: Any) -> Any:
    """A method by its name, for a config or a command line; `solver` goes to linear influence and to Newton
    removal, whose step is then searched for unless its size is among the `options`."""
    maker = BY_NAME[name]
    if solver is not None and name in ("linear", "newton"):
        options = {"solver": SOLVERS[solver](), **options}
    if name == "newton" and "gamma" not in options:
        options = {"line_search": True, **options}
    known = list(signature(maker).parameters)
    for option in options:
        if option not in known:
            there = f"it takes {', '.join(known)}" if known else "it takes none"
            raise BadInput(f"unknown option {option}; {name}; {there}")
    return maker(**options)
