"""Retrain on what is kept from new weights: the slow reference for every treatment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from amends.editors.climb import Climber
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.params import Params
from amends.posteriors import Posterior


@dataclass(frozen=True)
class Afresh:
    """Climbs log q + evidence from new weights: those of `start` (a module or state dict from before
    training), or drawn by each layer's own `reset_parameters`."""

    climb: Climber
    start: nn.Module | Mapping[str, Tensor] | None = None
    seed: int = 0

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        yield posterior
        start = (
            fresh(factor.network, self.seed)
            if self.start is None
            else factor.network.weights(self.start, "retrain, start")
        )
        for mean in self.climb(posterior.times(factor), start):
            yield posterior.moved(mean, factor)


def fresh(network: Network, seed: int) -> Params:
    """Newly drawn weights; the caller's random generators stay as they are."""
    statistics = [k for k, b in network.module.named_buffers() if b.is_floating_point()]
    if statistics:
        raise BadInput(
            f"the model keeps statistics of its data ({statistics[0]}), which no edit changes; retrain; "
            "train it in your own script, on what is kept"
        )
    module = deepcopy(network.module)
    drawn: set[str] = set()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        for name, layer in module.named_modules():
            reset: Any = getattr(layer, "reset_parameters", None)
            if reset is not None:
                reset()
                drawn |= {f"{name}.{k}" if name else k for k, _ in layer.named_parameters()}
    names = {k: p.detach().clone() for k, p in module.named_parameters() if k in network.params}
    left = [k for k in names if k not in drawn]
    if left:
        raise BadInput(
            f"no layer draws {left[0]} anew in reset_parameters; retrain; pass start, the state dict before training"
        )
    return names
