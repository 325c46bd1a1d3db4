"""What is used when nothing is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from amends.curvature import GGN, Damped, Diagonal, Kronecker, Once, Part
from amends.editors import LBFGS, Mode
from amends.methods.base import Method
from amends.methods.library.fine_tune import training
from amends.methods.library.functional import functional
from amends.methods.library.linear import grad_dot, linear
from amends.methods.library.loss import LearnedLoss
from amends.methods.ratio import label_part
from amends.remember import Data, Laplace, Predictions
from amends.settings import Edits, Forgetting, Settings, Teaching

Member = Method | LearnedLoss


@dataclass(frozen=True)
class Default:
    """Our choice for either step, made where it is known what was given. `settings` are those of the budget unless they
    are given."""

    budget: str = "default"
    settings: Settings | None = None

    def __post_init__(self) -> None:
        Settings.of(self.budget)

    def settings_for(self, large: bool) -> Settings:
        return Settings.of(self.budget, large) if self.settings is None else self.settings

    def identifying(self, remaining: bool, large: bool = False, examples: int = 0) -> dict[str, Member]:
        """A committee: the infinitesimal edit with and without curvature, a finite edit that holds predictions on
        right examples, and the example's loss once the model has learned failures and right examples; without right
        examples, a finite edit that holds the weights for the last two. `examples` are those of D.

        The failures weigh as much as all of D, so that few of them move the model too, and every
        edit scores by the part of r̃ that the example's own label is to blame for.
        """
        settings = self.settings_for(large).identifying
        edits, every = settings.edits, _members(settings.edits)
        every["learned loss"] = _learned_loss(settings.teaching, examples)
        return {name: every[name] for name in (edits.members if remaining else edits.without_right)}

    def treating(self, seed: int = 0, examples: int = 0, large: bool = False) -> Method:
        """Fine-tuning on what is kept; where `examples` are many, in fewer passes and larger batches."""
        settings = self.settings_for(large).forgetting
        return _tuned(settings, settings.rate, seed, examples)

    def otherwise(self, seed: int = 0, examples: int = 0, large: bool = False) -> tuple[Method, ...]:
        """What a repair chooses from beside that: other rates."""
        settings = self.settings_for(large).forgetting
        return tuple(_tuned(settings, rate, seed, examples) for rate in settings.rates)

    def shorter(self, seed: int = 0, examples: int = 0, large: bool = False) -> tuple[Method, ...]:
        """Those of them whose steps are shorter than usual."""
        settings = self.settings_for(large).forgetting
        return tuple(_tuned(settings, rate, seed, examples) for rate in settings.rates if rate < settings.rate)


def _members(edits: Edits) -> dict[str, Member]:
    diagonal, kronecker = (Once(Part(shape, edits.curved)) for shape in (Diagonal(GGN()), Kronecker(GGN())))
    climb, shorter = LBFGS(steps=edits.steps), LBFGS(steps=edits.steps_held)
    methods = {
        "grad_dot": grad_dot(),
        "linear": linear(Damped(kronecker, edits.damping)),
        "ewc": Method(Laplace(diagonal), Mode(climb)),
        "kfac_ewc": Method(Laplace(kronecker), Mode(climb)),
        "functional": functional(edits.strength, climb=shorter),
        "functional + ewc": Method(Predictions(edits.strength, laplace=Laplace(diagonal)), Mode(shorter)),
    }
    return {name: m._replace(mass=1.0, score=label_part) for name, m in methods.items()}


def _learned_loss(settings: Teaching, examples: int) -> LearnedLoss:
    """The trusted labels together keep their weight, however few the passes."""
    epochs, batch = settings.size(examples)
    rates = (settings.rate, *settings.rates)
    climbs = (training(rate, epochs, batch, augmented=False, rising=settings.rising) for rate in rates)
    trainings = tuple(Method(Data(), Mode(climb)) for climb in climbs)  # not augmented: scores are those of one view
    return LearnedLoss(trainings, settings.weight * settings.epochs / epochs)


def _tuned(settings: Forgetting, rate: float, seed: int, examples: int) -> Method:
    climb = training(rate, *settings.size(examples), seed=seed, rising=settings.rising)
    return Method(Data(), Mode(climb, climb))


def default(budget: str = "default") -> Default:
    """What `identify` and `treat` use when told nothing, for a budget: "quick", "default" or "thorough"."""
    return Default(budget)
