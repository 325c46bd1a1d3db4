"""What is used when nothing is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from amends.curvature import GGN, Damped, Diagonal, Kronecker, Once, Part
from amends.editors import LBFGS, Mode, Step
from amends.methods.base import Method, Scorer
from amends.methods.library.fine_tune import fine_tune
from amends.methods.library.functional import functional
from amends.methods.library.linear import grad_dot, linear
from amends.methods.library.loss import Shortfall
from amends.methods.ratio import label_part
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
            "grad_dot": grad_dot(),
            "linear": linear(Damped(kronecker, 10.0)),
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
