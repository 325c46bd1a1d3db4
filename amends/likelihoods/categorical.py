"""One class of several; outputs are logits [batch, classes]."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from amends.errors import BadInput


@dataclass(frozen=True)
class Categorical:
    """log softmax(outputs) at the class index, or averaged under a soft target."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        log_p = outputs.log_softmax(-1)
        if targets.is_floating_point():
            return (targets * log_p).sum(-1)
        return log_p.gather(-1, targets[:, None])[:, 0]

    def belief(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(-1)

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        below = outputs.softmax(-1).cumsum(-1) < uniform[:, :1]
        return below.sum(-1).clamp(max=outputs.shape[-1] - 1)

    def root(self, outputs: Tensor) -> Tensor:
        """Row r is √p_r (e_r − p): Σ_r p_r (e_r − p)(e_r − p)ᵀ = diag(p) − ppᵀ."""
        p = outputs.softmax(-1)
        eye = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
        return p.sqrt()[:, :, None] * (eye - p[:, None, :])

    def metric(self, outputs: Tensor, vector: Tensor) -> Tensor:
        p = outputs.softmax(-1)
        return p * (vector - (p * vector).sum(-1, keepdim=True))

    def right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.decide(outputs) == self.shown(targets)

    def decide(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1)

    def shown(self, targets: Tensor) -> Tensor:
        return targets.argmax(-1) if targets.is_floating_point() else targets

    def ceiling(self, targets: Tensor) -> Tensor:
        if targets.is_floating_point():
            return torch.xlogy(targets, targets).sum(-1)
        return torch.zeros(len(targets), device=targets.device)

    @property
    def family(self) -> Categorical:
        return self

    def check(self, outputs: Tensor, targets: Tensor, name: str) -> None:
        if outputs.ndim != 2 or outputs.shape[1] < 2:
            raise BadInput(
                f"the model returns {list(outputs.shape)} for {len(outputs)} examples of {name}, expected [batch, "
                "classes] with 2 classes or more; return one row of logits per example, or pass another likelihood: "
                "likelihoods.Bernoulli() for labels of 0 and 1, likelihoods.Gaussian() for numbers"
            )
        classes = outputs.shape[1]
        if targets.is_floating_point():
            if targets.ndim == 1:
                raise BadInput(
                    f"the labels of {name} are {targets.dtype}, expected whole numbers; convert them to integers"
                )
            if targets.ndim != 2 or targets.shape[1] != classes:
                raise BadInput(
                    f"the soft labels of {name} are {list(targets.shape)}, expected [{len(targets)}, {classes}]; "
                    "give class indices, or one probability per class"
                )
            bad = ((targets < 0).any(1) | ((targets.sum(1) - 1).abs() > 1e-3)).nonzero()
            if len(bad):
                raise BadInput(
                    f"the soft labels of {name}[{int(bad[0])}] are negative or do not sum to 1; "
                    "give probabilities, or for numbers likelihoods.Gaussian(sigma) or Custom(f, like=Gaussian(sigma))"
                )
            return
        if targets.ndim != 1:
            raise BadInput(
                f"the labels of {name} have shape {list(targets.shape)}, expected [{len(targets)}]; "
                "give one class index per example"
            )
        outside = ((targets < 0) | (targets >= classes)).nonzero()
        if len(outside):
            i = int(outside[0])
            raise BadInput(
                f"{name}[{i}] has label {int(targets[i])}, but the model has {classes} outputs; "
                "map classes to 0, 1, 2, ..., or drop the example"
            )
