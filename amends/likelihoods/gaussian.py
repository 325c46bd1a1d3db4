"""Real targets with known noise; outputs are the mean [batch, dims]."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import torch
from torch import Tensor

from amends.errors import BadInput


@dataclass(frozen=True)
class Gaussian:
    """N(y; f, σ²) with fixed σ. A prediction is right within `bound` of the target (2σ if None)."""

    sigma: float = 1.0
    bound: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("sigma", self.sigma), ("bound", self.bound)):
            if value is None and name == "bound":
                continue
            if not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
                raise BadInput(f"{name} is {value!r}; Gaussian; give a number above 0")

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        z = (outputs - targets.to(outputs.dtype).view_as(outputs)) / self.sigma
        return (-0.5 * z**2 - math.log(self.sigma) - 0.5 * math.log(2 * math.pi)).flatten(1).sum(1)

    def belief(self, outputs: Tensor) -> Tensor:
        return outputs

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        tiny = torch.finfo(outputs.dtype).eps
        normal = math.sqrt(2) * torch.erfinv(2 * uniform.clamp(tiny, 1 - tiny) - 1)
        return outputs + self.sigma * normal

    def root(self, outputs: Tensor) -> Tensor:
        return torch.diag_embed(torch.full_like(outputs, 1 / self.sigma))

    def metric(self, outputs: Tensor, vector: Tensor) -> Tensor:
        return vector / self.sigma**2

    @property
    def within(self) -> float:
        """How far off a right prediction may be."""
        return 2 * self.sigma if self.bound is None else self.bound

    def right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return ((outputs - targets.to(outputs.dtype).view_as(outputs)).abs() <= self.within).flatten(1).all(1)

    def decide(self, outputs: Tensor) -> Tensor:
        return outputs

    def shown(self, targets: Tensor) -> Tensor:
        return targets

    def ceiling(self, targets: Tensor) -> Tensor:
        highest = -math.log(self.sigma) - 0.5 * math.log(2 * math.pi)
        return torch.full((len(targets),), highest * targets[:1].numel(), dtype=torch.float64, device=targets.device)

    @property
    def family(self) -> Gaussian:
        return self

    def check(self, outputs: Tensor, targets: Tensor, name: str) -> None:
        if outputs.ndim == 1:
            raise BadInput(
                f"the model returns {list(outputs.shape)} for {len(outputs)} examples of {name}, expected [batch, "
                "dims]; let it return outputs[:, None]"
            )
        if outputs.ndim != 2 or targets.numel() != len(targets) * outputs.shape[1]:
            raise BadInput(
                f"the model returns {list(outputs.shape)} and the targets of {name} have shape {list(targets.shape)}, "
                "expected [batch, dims] for both; give one target per output"
            )
