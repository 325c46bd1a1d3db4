"""What several models remember: trained separately, or drawn around one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from amends.curvature import GGN, Damped, Diagonal
from amends.errors import BadInput, at_least
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.params import Params, plus, scaled
from amends.posteriors import Ensemble, Posterior


@dataclass(frozen=True)
class Members:
    """The model itself and `models` (modules or state dicts of the same architecture), or `samples`
    draws around it from a damped diagonal Laplace posterior, narrowed to `scale` times its width.

    At full width, draws from a network's diagonal posterior no longer behave like the network.
    """

    remember: Callable[[Factor, Factor | None], Posterior]
    models: tuple[Any, ...] = ()
    samples: int = 0
    scale: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("ensemble", samples=(self.samples, 0), scale=(self.scale, 0.0))

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Ensemble:
        if bool(self.models) == bool(self.samples):
            raise BadInput(
                "ensemble needs models or samples, and not both; pass other models, or the number of samples"
            )
        thetas = [train.network.params, *self._others(train.network)] if self.models else self._draws(train)
        members = tuple(
            self.remember(_at(train, theta), None if remaining is None else _at(remaining, theta)) for theta in thetas
        )
        if members[0].mean.keys() != train.network.params.keys():
            raise BadInput(
                "the method edits the last layer alone, but the members differ in all layers; ensemble; use all layers"
            )
        return Ensemble(members) if self.models else Ensemble(members, train.network.params, tuple(thetas))

    def _others(self, network: Network) -> list[Params]:
        for i, model in enumerate(self.models):
            state = model.state_dict() if isinstance(model, nn.Module) else model
            network.check_weights(state, f"models[{i}]")
            for k, fixed in network.module.state_dict().items():
                if k not in network.params and not (k in state and torch.equal(state[k].to(fixed), fixed)):
                    raise BadInput(
                        f"models[{i}] differs from the model in {k}, which is not trained; pass models that agree in it"
                    )
        return [network.weights(model, f"models[{i}]") for i, model in enumerate(self.models)]

    def _draws(self, train: Factor) -> list[Params]:
        mean = train.network.params
        precision = Damped(Diagonal(GGN()), 0.1)(train, mean)
        noise = torch.Generator().manual_seed(self.seed)
        return [plus(mean, scaled(precision.draw(noise), self.scale)) for _ in range(self.samples)]


def _at(factor: Factor, theta: Params) -> Factor:
    return replace(factor, network=replace(factor.network, params=theta))
