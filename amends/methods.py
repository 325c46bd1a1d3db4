"""The methods by name: what is remembered, and how evidence is put in or taken out.

A method is an immutable object; reuse it freely. `identify` and `treat` take any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from amends.baselines import Loss, Oracle, Random
from amends.climb import LBFGS, Adam, Climber
from amends.curvature import CG, GGN, Diagonal, Empirical, Isotropic, Kind, Kronecker
from amends.editors import Editor, Mode, Step, Tangent
from amends.factor import Factor
from amends.posteriors import Curvature, Posterior
from amends.remember import Data, Laplace, Predictions


def plain(raw: Tensor, loss: Tensor) -> Tensor:
    """r̃ as it is, Eq. final_influence_score."""
    return raw


def by_loss(raw: Tensor, loss: Tensor) -> Tensor:
    """r̃ times the example's own loss: an example acted on the model only through its gradient,
    and a finite edit can push a well-fitted one far although it never pulled."""
    return raw * loss


class Method(NamedTuple):
    """One row of the table: remember(train, remaining) → posterior, and an editor of it.

    `hold` is the share of the evidence kept out of the edit to decide where its path ends;
    `weigh` turns r̃ and the example's loss (how far log p(z|θ̂) is below the best it could be) into
    the score; `learn` also inserts the failures when treating.
    """

    remember: Callable[[Factor, Factor | None], Posterior]
    editor: Editor
    hold: float = 0.0
    weigh: Callable[[Tensor, Tensor], Tensor] = plain
    learn: bool = False


Scorer = Callable[[Factor, Factor], Tensor]


def weighted(method: Method) -> Method:
    """The same method, its scores times each example's own loss."""
    return method._replace(weigh=by_loss)


def ewc(
    prior: float = 0.0,
    kind: Kind = GGN(),  # noqa: B008 (frozen, without state)
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
    hold: float = 0.0,
) -> Method:
    """Elastic weight consolidation with the exact diagonal Fisher of all of D, at its optimum.

    The Fisher is that of the model's own predictions, as Kirkpatrick et al. define it and exactly
    in expectation; `kind=Empirical()` takes the given labels instead, as the paper does."""
    return Method(Laplace(Diagonal(kind, prior)), _mode(climb, unlearn, bounded), hold)


def ewc_as_printed(seed: int = 0) -> Method:
    """EWC with the paper's optimiser: Adam 1e-3, batches of 64, stopped on 10 % of the query."""
    printed = Adam(rate=1e-3, epochs=100, batch=64, every=1, seed=seed)
    return ewc(kind=Empirical(), climb=printed, unlearn=printed, hold=0.1)


def kfac_ewc(
    prior: float = 0.0,
    kind: Kind = Empirical(),  # noqa: B008 (frozen, without state)
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
) -> Method:
    """EWC with a Kronecker-factored Fisher."""
    return Method(Laplace(Kronecker(kind, prior)), _mode(climb, unlearn, bounded))


def functional(
    strength: float = 0.01,
    on_train: bool = False,
    on_remaining: bool = True,
    with_ewc: bool = False,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
) -> Method:
    """Holds predictions instead of weights: −β N E KL(old ‖ new) over the chosen inputs.

    Unless told otherwise it ends after 40 steps: many weights give the same predictions, so a
    longer path gains little and magnifies rounding.
    """
    laplace = Laplace(Diagonal(GGN())) if with_ewc else None
    return Method(
        Predictions(strength, on_train, on_remaining, laplace), _mode(climb or LBFGS(steps=40), unlearn, bounded)
    )


def _mode(climb: Climber | None, unlearn: Climber | None, bounded: bool) -> Mode:
    chosen: dict[str, Climber] = {}
    if climb is not None:
        chosen["climb"] = climb
    if unlearn is not None:
        chosen["unlearn"] = unlearn
    return Mode(**chosen, bounded=bounded)


def fine_tune(
    rate: float = 1e-3, epochs: float = 10, batch: int = 64, pull: float = 0.0, learn: bool = False, seed: int = 0
) -> Method:
    """Goes on training on what is kept; with `learn`, on the query failures as well."""
    climb = Adam(rate=rate, epochs=epochs, batch=batch, every=10**9, decay=True, seed=seed)
    return Method(Data(pull), Mode(climb, climb), learn=learn)


def linear(solver: Curvature = CG(), gamma: float | None = None) -> Method:  # noqa: B008 (frozen)
    """Linear influence; γ scales every score alike."""
    return Method(Laplace(solver), Tangent(gamma))


def newton(solver: Curvature = CG(), gamma: float | None = None) -> Method:  # noqa: B008 (frozen)
    """Newton removal: one step of size γ (1/N when None)."""
    return Method(Laplace(solver), Step(gamma))


def grad_dot() -> Method:
    """−∇log p(F)·∇log p(z): linear influence without curvature."""
    return Method(Laplace(Isotropic()), Tangent())


def loss() -> Scorer:
    """The example's own loss; does not look at the failures."""
    return Loss()


def random(seed: int = 0) -> Scorer:
    """A control."""
    return Random(seed)


def oracle(truth: Any) -> Scorer:
    """For experiments that know the truth."""
    return Oracle(truth)


@dataclass(frozen=True)
class Default:
    """Our choice for either step, made where it is known what was given."""

    def identifying(self, remaining: int, failures: int) -> Method:
        """Predictions held on held-out right examples, EWC where there are none; times loss.

        From ten failures on, a fifth of them decides where the edit ends: an edit that only fits
        the failures it was shown says little about what caused them.
        """
        method = weighted(functional() if remaining else ewc())
        return method._replace(hold=0.2) if failures >= 10 else method

    def treating(self, seed: int = 0) -> Method:
        """Fine-tuning on what is kept."""
        return fine_tune(seed=seed)


def default() -> Default:
    """What `identify` and `treat` use when told nothing."""
    return Default()


BY_NAME: dict[str, Callable[[], Method | Scorer | Default]] = {
    "default": default,
    "ewc": ewc,
    "ewc_as_printed": ewc_as_printed,
    "kfac_ewc": kfac_ewc,
    "functional": functional,
    "fine_tune": fine_tune,
    "linear": linear,
    "newton": newton,
    "grad_dot": grad_dot,
    "loss": loss,
    "random": random,
}
TREAT_ONLY = (  # not offered for identifying on the command line: fine-tuning does it weakly, a step not at all
    "fine_tune",
    "newton",
)

__all__ = [
    "BY_NAME", "Default", "Method", "Scorer", "default", "ewc", "ewc_as_printed", "fine_tune", "functional",
    "grad_dot", "kfac_ewc", "linear", "loss", "newton", "oracle", "random", "weighted",
]  # fmt: skip
