"""A mean-field posterior around a trained model: the spread is fitted, the mean stays (Nguyen et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from amends.curvature import GGN, Diagonal
from amends.editors.climb import LBFGS, Climber
from amends.errors import at_least
from amends.evidence.factor import Factor
from amends.evidence.params import Params, count, dot
from amends.posteriors import Expected, MeanField
from amends.posteriors.expected import drawn_names, spread_name


@dataclass(frozen=True, eq=False)
class Entropy:
    """Σ log s − ½Λs²: the entropy of q plus a Gaussian of precision Λ, as a function of the log of the ratio
    of s to a first guess."""

    guess: Params
    precision: Params

    def _weight(self, theta: Params, k: str) -> Tensor:
        return self.precision[k] * (self.guess[k] * theta[spread_name(k)].exp()) ** 2

    def value_and_grad(self, theta: Params) -> tuple[float, Params]:
        value = sum(float((theta[spread_name(k)] - 0.5 * self._weight(theta, k)).double().sum()) for k in self.guess)
        return value, {spread_name(k): 1 - self._weight(theta, k) for k in self.guess}

    def hessian(self, theta: Params) -> Tensor:
        return -torch.diag(torch.cat([2 * self._weight(theta, k).reshape(-1) for k in self.guess]))


@dataclass(frozen=True)
class Variational:
    """Climbs E_q log p(D|θ) − KL(q ‖ N(0, 1/λ)) over the spread alone.

    The first guess is the diagonal Laplace approximation, which is exact where the log-likelihood is
    quadratic. A parameter without noise keeps it. With `prior` None, λ is the number of parameters over
    ‖θ̂‖², under which θ̂ itself is most likely.
    """

    prior: float | None = None
    draws: int = 2
    climb: Climber = field(default_factory=lambda: LBFGS(steps=10, tolerance=1e-3))
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("vcl", draws=(self.draws, 1), prior=(1.0 if self.prior is None else self.prior, 1e-12))

    def __call__(self, train: Factor, remaining: Factor | None = None) -> MeanField:
        mean = train.network.params
        data = Diagonal(GGN())(train, mean).data
        prior = count(mean) / max(dot(mean, mean), 1e-12) if self.prior is None else self.prior
        guess = {k: (d + prior).rsqrt() for k, d in data.items()}
        drawn = drawn_names(train)
        silent = {k: torch.full_like(d, prior) if k in drawn else d + prior for k, d in data.items()}
        terms = [Expected(train, mean, guess, self.draws, self.seed), Entropy(guess, silent)]
        start = {spread_name(k): torch.zeros_like(v) for k, v in guess.items()}
        fitted = [start, *self.climb(terms, start)][-1]
        return MeanField(mean, {k: g * fitted[spread_name(k)].exp() for k, g in guess.items()})
