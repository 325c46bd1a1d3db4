"""Data Shapley: an example's part in how well a small head does on the failures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from amends.curvature.last import last_layer
from amends.errors import BadInput, at_least
from amends.evidence import Factor
from amends.likelihoods import Categorical
from amends.methods.base import Scorer
from amends.methods.library.random import SALT

WIDEST = 2048
HELD = 2**27  # numbers in the inverses held at once; more permutations than that take turns


@dataclass(frozen=True, eq=False)
class Head:
    """Ridge regression W = (λI + Σaaᵀ)⁻¹ Σatᵀ of targets t on features a, and what it is tried on."""

    features: Tensor  # [n, d]
    targets: Tensor  # [n, k]
    tried: Tensor  # [f, d]
    wanted: Tensor  # [f, k]
    ridge: float

    def value(self, subset: Tensor) -> float:
        """V(S) = −mean squared error over the failures of the head fitted to S.

        Not accuracy: over a few failures it takes a few values, so that most examples would change
        nothing and the rest would change it by chance.
        """
        a, t = self.features[subset], self.targets[subset]
        eye = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
        return float(self._value(self.tried @ torch.linalg.solve(a.T @ a + self.ridge * eye, a.T @ t)))

    def _value(self, predicted: Tensor) -> Tensor:
        return -(predicted - self.wanted).square().sum(-1).mean(-1)

    def marginals(self, orders: Tensor, tolerance: float = 0.0) -> Tensor:
        """V(prefix + z) − V(prefix) of each z in each of the orders: [orders, n], in the order of train.

        One example is a rank-one update (Sherman–Morrison), so every prefix is refitted exactly. An
        order ends once |V(D) − V(prefix)| < tolerance · |V(D) − V(∅)|; the rest of it adds 0.
        """
        (m, n), (d, k), new = orders.shape, (self.features.shape[1], self.targets.shape[1]), self.features.new_zeros
        found, rows = new(m, n), torch.arange(m, device=orders.device)
        inverse = torch.eye(d, out=new(d, d)).repeat(m, 1, 1) / self.ridge
        weights, predicted = new(m, d, k), new(m, len(self.tried), k)
        value, full = self._value(predicted), self.value(rows.new_tensor(range(n)))
        near = tolerance * (full - value[0]).abs()
        for step in range(n):
            going = ~((full - value).abs() < near)
            if not going.all():
                rows, inverse, weights = rows[going], inverse[going], weights[going]
                predicted, value = predicted[going], value[going]
                if not len(rows):
                    break
            at = orders[rows, step]
            a, t = self.features[at, :, None], self.targets[at, None]
            seen = inverse @ a
            gain = seen / (1 + a.mT @ seen)
            error = t - a.mT @ weights
            inverse.baddbmm_(gain, seen.mT, alpha=-1)
            weights.baddbmm_(gain, error)
            predicted.baddbmm_(self.tried @ gain, error)
            before, value = value, self._value(predicted)
            found[rows, at] = value - before
        return found


@dataclass(frozen=True)
class Shapley:
    """−φ(z), with φ the mean of V(prefix + z) − V(prefix) over random orders of D; positive is harmful.

    Truncated Monte Carlo (Ghorbani & Zou 2019); exact when `permutations` reaches n!. The model is a
    ridge regression on what the network's last linear layer sees, to one-hot labels or the targets,
    since the network itself cannot be trained on every prefix.
    """

    permutations: int = 20
    ridge: float = 1.0
    tolerance: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(
            "shapley", permutations=(self.permutations, 1), ridge=(self.ridge, 1e-12), tolerance=(self.tolerance, 0.0)
        )

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        head = self.head(train, failures)
        orders = torch.as_tensor(self.orders(len(train)), device=head.features.device)
        at_once = max(1, HELD // head.features.shape[1] ** 2)
        return -torch.cat([head.marginals(part, self.tolerance) for part in orders.split(at_once)]).mean(0)

    def head(self, train: Factor, failures: Factor) -> Head:
        theta = train.network.params
        features, tried = (last_layer(data, theta)[0].double() for data in (train, failures))
        width = features.shape[1] - 1
        if not width:
            raise BadInput("shapley needs a last linear layer that trains, and the model has none; use another method")
        if width > WIDEST:
            raise BadInput(
                f"the last layer sees {width} features, but shapley takes {WIDEST} at most; use another method"
            )
        classes = train[:1].outputs(theta).shape[-1]
        targets, wanted = (_targets(data, classes).to(features) for data in (train, failures))
        return Head(features, targets, tried, wanted, self.ridge)

    def orders(self, n: int) -> np.ndarray:
        """[permutations, n]: all of them where there are no more than asked for, else drawn."""
        if math.lgamma(n + 1) <= math.log(self.permutations) + 1e-9:
            return np.array(list(permutations(range(n))))
        rng = np.random.default_rng([self.seed, SALT])
        return np.stack([rng.permutation(n) for _ in range(self.permutations)])


def _targets(data: Factor, classes: int) -> Tensor:
    y = data.examples.y
    if isinstance(data.network.likelihood.family, Categorical) and not y.is_floating_point():
        return one_hot(y, classes)
    return y.reshape(len(y), -1)


def shapley(permutations: int = 20, ridge: float = 1.0, tolerance: float = 0.01, seed: int = 0) -> Scorer:
    """Data Shapley on a small head over the model's features (Ghorbani & Zou 2019)."""
    return Shapley(permutations, ridge, tolerance, seed)
