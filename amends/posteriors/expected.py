"""E_q log p(S|θ) under a mean-field Gaussian, by local reparametrisation (Kingma et al. 2015).

A layer that is linear in its weights has a Gaussian output once its weights are Gaussian, so the
noise is drawn there, for every example on its own: far less variance than one draw of the weights
for a whole batch. Draws come in pairs ±ε, which makes the gradient by the mean exact wherever the
log-likelihood is quadratic. The noise is a function of the example's id, so that the objective is
one fixed function: any climber may be used, and the compute batch does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from amends.data.examples import Inputs
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.params import Params

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding)
TINY = 1e-24  # a variance of zero has no derivative of its root
GOLDEN, MIX = -7046029254386353131, (-4658895280553007687, -7723592293110705685)


@dataclass(frozen=True, eq=False)
class Expected:
    """Σ wᵢ E log p(zᵢ|θ) as a function of {name: (mean − centre)/spread, log name: log of the ratio of
    spreads}, so that every coordinate is of order one. Missing names stay at zero.

    Noise is drawn for linear, convolution and embedding layers, in pairs, so an odd number of draws
    counts as one less; other parameters have none.
    """

    factor: Factor
    centre: Params
    spread: Params
    draws: int = 8
    seed: int = 0

    @property
    def weights(self) -> Tensor:
        return self.factor.weights

    def value_and_grad(self, theta: Params) -> tuple[float, Params]:
        return self.factor.summed(theta, self._summand)

    def hessian(self, theta: Params) -> Tensor:
        raise BadInput("an expectation over draws has no dense Hessian here; variational editor; use L-BFGS or Adam")

    def _summand(self, at: slice, theta: Params, x: Inputs, y: Tensor, w: Tensor) -> Tensor:
        network = self.factor.network
        keys = torch.as_tensor(self.factor.ids[at].astype(np.int64), device=network.device)
        pairs = max(1, self.draws // 2)
        total = torch.zeros_like(w)
        for draw in range(pairs):
            drawn: list[Tensor] = []  # the same for both signs
            for sign in (1.0, -1.0):
                with self._noise(theta, keys, draw, sign, drawn) as mean:
                    total = total + network.log_prob(mean, x, y)
        return w * total / (2 * pairs)

    @contextmanager
    def _noise(self, theta: Params, keys: Tensor, draw: int, sign: float, drawn: list[Tensor]) -> Iterator[Params]:
        """The mean to call the network with; while it is, layers add their noise."""
        mean = {k: c + self.spread[k] * theta[k] if k in theta else c for k, c in self.centre.items()}
        variance = {
            k: (s * (theta[spread_name(k)].exp() if spread_name(k) in theta else 1.0)) ** 2
            for k, s in self.spread.items()
        }
        calls = 0

        def hook(own: dict[str, str]):
            def noisy(layer: nn.Module, args: tuple, out: Tensor) -> Tensor:
                nonlocal calls
                if not local(args, out, len(keys)):
                    return out
                calls += 1
                if len(drawn) < calls:
                    drawn.append(normal(keys, out.shape[1:], (self.seed << 40) + (draw << 16) + calls).to(out))
                spread = {k: variance[name] for k, name in own.items()}
                return out + sign * (_variance(layer, args[0], spread) + TINY).sqrt() * drawn[calls - 1]

            return noisy

        layers = noisy_layers(self.factor.network, self.spread)
        handles = [layer.register_forward_hook(hook(own)) for layer, own in layers.items()]
        try:
            yield mean
        finally:
            for handle in handles:
                handle.remove()


def spread_name(name: str) -> str:
    return f"log {name}"


def local(args: tuple, out: Any, batch: int) -> bool:
    """Whether a call is one of a layer on one tensor, with a row for each example."""
    return len(args) == 1 and isinstance(args[0], Tensor) and isinstance(out, Tensor) and len(out) == batch


def drawn_names(data: Factor) -> set[str]:
    """The parameters that noise is drawn for when the network is called."""
    x, _ = data.examples.fetch(0, min(2, len(data)))
    found: set[str] = set()

    def hook(own: dict[str, str]):
        def seen(layer: nn.Module, args: tuple, out: Any) -> None:
            if local(args, out, min(2, len(data))):
                found.update(own.values())

        return seen

    layers = noisy_layers(data.network, data.network.params)
    handles = [layer.register_forward_hook(hook(own)) for layer, own in layers.items()]
    try:
        data.network.outputs(data.network.params, x)
    finally:
        for handle in handles:
            handle.remove()
    return found


def noisy_layers(network: Network, theta: Params) -> dict[nn.Module, dict[str, str]]:
    """The layers that noise may be drawn for, and what their own parameters are called in θ."""
    names = {id(p): k for k, p in network.module.named_parameters() if k in theta}
    found = {}
    for layer in network.module.modules():
        own = {k: names[id(p)] for k, p in layer._parameters.items() if p is not None and id(p) in names}
        if type(layer) in LAYERS and own:
            found[layer] = own
    return found


def _variance(layer: nn.Module, x: Tensor, own: dict[str, Tensor]) -> Tensor:
    """Of the layer's output, with independent weights of the given variances."""
    weight, bias = own.get("weight"), own.get("bias")
    if weight is None:
        weight = torch.zeros_like(layer.weight)  # type: ignore[arg-type]
    if isinstance(layer, nn.Embedding):
        return weight[x]
    if isinstance(layer, nn.Linear):
        return nnf.linear(x**2, weight, bias)
    return layer._conv_forward(x**2, weight, bias)  # type: ignore[operator]


def normal(keys: Tensor, shape: tuple[int, ...] | torch.Size, salt: int) -> Tensor:
    """Standard normal [len(keys), *shape]: a function of key, place and salt alone (splitmix64)."""
    place = torch.arange(math.prod(shape), device=keys.device)
    state = _mixed(keys[:, None] * GOLDEN + salt) + place * GOLDEN
    uniform = ((_mixed(state) >> 11) & (2**53 - 1)).double() * 2.0**-53 + 2.0**-54
    return torch.special.ndtri(uniform).reshape(len(keys), *shape)


def _mixed(z: Tensor) -> Tensor:
    """Arithmetic modulo 2⁶⁴; a logical shift is an arithmetic one with the copied signs masked off."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * MIX[0]
    z = (z ^ ((z >> 27) & (2**37 - 1))) * MIX[1]
    return z ^ ((z >> 31) & (2**33 - 1))
