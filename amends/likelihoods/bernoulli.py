"""Several yes-or-no labels; outputs are logits [batch, labels]."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from amends.errors import BadInput


@dataclass(frozen=True)
class Bernoulli:
    """Σ_k y_k log σ(f_k) + (1 − y_k) log σ(−f_k); targets in [0, 1]. Right when all labels are. With a single label,
    targets may have shape [batch]."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        y = targets.to(outputs.dtype).view_as(outputs)
        return (y * logsigmoid(outputs) + (1 - y) * logsigmoid(-outputs)).flatten(1).sum(1)

    def belief(self, outputs: Tensor) -> Tensor:
        return outputs.sigmoid()

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        return (uniform < outputs.sigmoid()).to(outputs.dtype)

    def root(self, outputs: Tensor) -> Tensor:
        return torch.diag_embed((outputs.sigmoid() * (-outputs).sigmoid()).sqrt())

    def metric(self, outputs: Tensor, vector: Tensor) -> Tensor:
        return outputs.sigmoid() * (-outputs).sigmoid() * vector

    def right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return ((outputs > 0) == (targets.view_as(outputs) > 0.5)).flatten(1).all(1)

    def decide(self, outputs: Tensor) -> Tensor:
        return (outputs > 0).long()

    def shown(self, targets: Tensor) -> Tensor:
        return (targets > 0.5).long()

    def ceiling(self, targets: Tensor) -> Tensor:
        y = targets.double()
        return (torch.xlogy(y, y) + torch.xlogy(1 - y, 1 - y)).reshape(len(y), -1).sum(1)

    @property
    def family(self) -> Bernoulli:
        return self

    def check(self, outputs: Tensor, targets: Tensor, name: str) -> None:
        if outputs.ndim == 1:
            raise BadInput(
                f"the model returns {list(outputs.shape)} for {len(outputs)} examples of {name}, expected [batch, "
                "labels]; let it return outputs[:, None]"
            )
        if outputs.ndim != 2 or targets.numel() != len(targets) * outputs.shape[1]:
            raise BadInput(
                f"the model returns {list(outputs.shape)} and the labels of {name} have shape {list(targets.shape)}, "
                "expected [batch, labels] for both; give one 0/1 label per output"
            )
        outside = ((targets < 0) | (targets > 1)).reshape(len(targets), -1).any(1).nonzero()
        if len(outside):
            raise BadInput(f"{name}[{int(outside[0])}] has a label outside [0, 1]; give 0, 1 or a probability")
