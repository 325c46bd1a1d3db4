"""The Laplace approximation around a trained model, Eq. taylor_expansion."""

from __future__ import annotations

from dataclasses import dataclass, replace

from amends.curvature import Diagonal, Scaled, rules
from amends.curvature.backprop import forward, plan
from amends.errors import BadInput, at_least, kind_of
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.posteriors import Curvature, Gaussian


@dataclass(frozen=True)
class Laplace:
    """N(θ̂, (N·F̂ + λI)⁻¹), with the curvature of all of D; λ is the curvature's own prior.

    With `last_layer`, only the last linear layer is uncertain, and only it will be edited. `draws` and
    `decay` are those of Gaussian. `gamma` scales N·F̂ by 2/γN, as the paper does to trade forgetting for
    keeping; None is γ = 2/N, the quadratic as it is.
    """

    curvature: Curvature = Diagonal()  # noqa: RUF009 (frozen, without state)
    last_layer: bool = False
    decay: float = 1.0
    draws: int = 0
    seed: int = 0
    gamma: float | None = None

    def __post_init__(self) -> None:
        at_least("laplace", decay=(self.decay, 0.0), draws=(self.draws, 0))
        at_least("ewc", gamma=(1.0 if self.gamma is None else self.gamma, 1e-12))
        if self.decay > 1:
            raise BadInput(f"decay is {self.decay!r}; online_ewc; give 1 to keep everything, or less to fade")

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Gaussian:
        mean = train.network.params
        if self.last_layer:
            mean = {k: mean[k] for k in last_names(train, mean)}
        size, curvature = float(train.weights.sum()), self.curvature
        if self.gamma is not None:
            curvature = Scaled(curvature, 2 / (self.gamma * size))
        return Gaussian(
            mean, curvature(train, mean), curvature, size, decay=self.decay, draws=self.draws, seed=self.seed
        )


@dataclass(frozen=True, eq=False)
class Running:
    """Continues with the posterior of the last repair, without another pass over the data."""

    since: Gaussian

    def __post_init__(self) -> None:
        if not isinstance(self.since, Gaussian):
            raise BadInput(f"since is {kind_of(self.since)}; online_ewc; pass a posterior, such as Influence.edited")

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Gaussian:
        mean = train.network.params
        shapes = [{k: v.shape for k, v in p.items()} for p in (mean, self.since.mean)]
        if shapes[0] != shapes[1]:
            raise BadInput(
                "since is the posterior of another model; online_ewc; pass that of the last repair of this model"
            )
        return replace(self.since, mean=mean)


def last_names(train: Factor, theta: Params) -> list[str]:
    """The parameters of the linear layer that is called last."""
    layout = plan(train, theta)
    x, _ = train.examples.fetch(0, min(2, len(train)))
    calls = [c for c in forward(train.network, theta, x, layout.layers).calls if c.owned.rule is rules.linear]
    if not calls:
        raise BadInput("the model has no linear layer that can be edited alone; last_layer; use all layers")
    return list(calls[-1].owned.names.values())
