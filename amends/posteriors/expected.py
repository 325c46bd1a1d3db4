"""E_q log p(S|θ) under a mean-field Gaussian, by local reparametrisation (Kingma et al. 2015).

A layer that is linear in its weights has a Gaussian output if its weights are Gaussian. So the noise
is drawn there, for each example: far less variance than one draw of the weights for a whole batch.
Draws come in pairs ±ε, which makes the gradient with respect to the mean exact where the
log-likelihood is quadratic. The noise depends on the example's id alone, so the objective is a fixed
function: any climber can be used, and the batch size does not matter.
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
from amends.evidence.factor import Factor, Value
from amends.evidence.network import Network, hooked
from amends.evidence.params import Params

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding)
TINY = 1e-24  # the root of a variance of zero has no derivative
GOLDEN, MIX = -7046029254386353131, (-4658895280553007687, -7723592293110705685)


@dataclass(frozen=True, eq=False)
class Expected:
    """Σ wᵢ E log p(zᵢ|θ) as a function of {name: (mean − centre)/spread, log name: log of the ratio of
    spreads}, so that every coordinate is of order one. Missing names count as zero.

    Noise is drawn for linear, convolution and embedding layers, in pairs: an odd number of draws counts
    as one less. Other parameters have no noise.
    """

    factor: Factor
    centre: Params
    spread: Params
    draws: int = 8
    seed: int = 0

    @property
    def weights(self) -> Tensor:
        return self.factor.weights

    def value_and_grad(self, theta: Params) -> tuple[Value, Params]:
        return self.factor.summed(theta, self._summand)

    def hessian(self, theta: Params) -> Tensor:
        raise BadInput("an expectation over draws has no dense Hessian; climb it with LBFGS or Adam")

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
        """Yields the mean to call the network with; inside, layers add their noise."""
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

        with hooked({layer: hook(own) for layer, own in noisy_layers(self.factor.network, self.spread).items()}):
            yield mean


def spread_name(name: str) -> str:
    return f"log {name}"


def local(args: tuple, out: Any, batch: int) -> bool:
    """Whether a layer was called with one tensor and returned a row for each example."""
    return len(args) == 1 and isinstance(args[0], Tensor) and isinstance(out, Tensor) and len(out) == batch


def drawn_names(data: Factor) -> set[str]:
    """The names of the parameters that noise is drawn for when the network is called."""
    x, _ = data.examples.fetch(0, min(2, len(data)))
    names: set[str] = set()

    def hook(own: dict[str, str]):
        def seen(layer: nn.Module, args: tuple, out: Any) -> None:
            if local(args, out, min(2, len(data))):
                names.update(own.values())

        return seen

    layers = noisy_layers(data.network, data.network.params)
    with hooked({layer: hook(own) for layer, own in layers.items()}):
        data.network.outputs(data.network.params, x)
    return names


def noisy_layers(network: Network, theta: Params) -> dict[nn.Module, dict[str, str]]:
    """The layers that noise may be drawn for, and the names of their parameters in θ."""
    names = {id(p): k for k, p in network.module.named_parameters() if k in theta}
    layers = {}
    for layer in network.module.modules():
        own = {k: names[id(p)] for k, p in layer._parameters.items() if p is not None and id(p) in names}
        if type(layer) in LAYERS and own:
            layers[layer] = own
    return layers


def _variance(layer: nn.Module, x: Tensor, own: dict[str, Tensor]) -> Tensor:
    """The variance of the layer's output, for independent weights with the variances in `own`."""
    weight, bias = own.get("weight"), own.get("bias")
    if weight is None:
        weight = torch.zeros_like(layer.weight)  # type: ignore[arg-type]
    if isinstance(layer, nn.Embedding):
        return weight[x]
    if isinstance(layer, nn.Linear):
        return nnf.linear(x**2, weight, bias)
    return layer._conv_forward(x**2, weight, bias)  # type: ignore[operator]


def normal(keys: Tensor, shape: tuple[int, ...] | torch.Size, salt: int) -> Tensor:
    """Standard normal [len(keys), *shape], a function of key, place and salt alone (splitmix64)."""
    place = torch.arange(math.prod(shape), device=keys.device)
    state = _mixed(keys[:, None] * GOLDEN + salt) + place * GOLDEN
    uniform = ((_mixed(state) >> 11) & (2**53 - 1)).double() * 2.0**-53 + 2.0**-54
    return torch.special.ndtri(uniform).reshape(len(keys), *shape)


def _mixed(z: Tensor) -> Tensor:
    """The mixing step of splitmix64; a logical shift is an arithmetic one with the copied signs masked off."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * MIX[0]
    z = (z ^ ((z >> 27) & (2**37 - 1))) * MIX[1]
    return z ^ ((z >> 31) & (2**33 - 1))
