"""The step of Adam (Kingma & Ba 2015), for all parameters as one vector."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

MEAN, SQUARE = 0.9, 0.999  # how much of the moments is kept at each step
LEAST = 1e-8  # added to the root of the second moment


@dataclass(eq=False)
class Moments:
    """Moves `point` in place, up a gradient, with the numbers of torch.optim.Adam. As all parameters are one vector, a
    step takes only a few operations; for a small model, one call for each parameter would take most of the time."""

    point: Tensor
    taken: int = 0
    mean: Tensor = field(init=False)
    square: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.mean, self.square = torch.zeros_like(self.point), torch.zeros_like(self.point)

    def step(self, gradient: Tensor, rate: float) -> None:
        self.taken += 1
        self.mean.lerp_(gradient, 1 - MEAN)
        self.square.mul_(SQUARE).addcmul_(gradient, gradient, value=1 - SQUARE)
        spread = (self.square.sqrt() / (1 - SQUARE**self.taken) ** 0.5).add_(LEAST)
        self.point.addcdiv_(self.mean, spread, value=rate / (1 - MEAN**self.taken))
