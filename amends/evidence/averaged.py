"""The result of treating an ensemble: several models that answer as one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class Averaged(nn.Module):
    """Several models as one: the mean of their probabilities for classes, else the mean of their outputs."""

    def __init__(self, models: list[nn.Module], classes: bool):
        super().__init__()
        self.members = nn.ModuleList(models)
        self.classes = classes

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        outputs = [model(*args, **kwargs) for model in self.members]
        outputs = torch.stack([getattr(out, "logits", out) for out in outputs])
        if not self.classes:
            return outputs.mean(0)
        return outputs.log_softmax(-1).logsumexp(0) - math.log(len(outputs))
