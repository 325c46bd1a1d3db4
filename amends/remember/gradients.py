"""Gradients of the outputs on some of D, for orthogonal gradient descent (Farajtabar et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from amends.curvature.backprop import general_grads
from amends.errors import BadInput, at_least
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.likelihoods import Categorical, Tokens
from amends.posteriors import Orthogonal


@dataclass(frozen=True)
class Gradients:
    """The gradient of the output of its own label (the authors' OGD-GTL), or of every output, for
    `memory` examples of D, drawn at random.

    Takes memory · parameters numbers, and an SVD of that matrix at the first edit.
    """

    memory: int = 200
    every_output: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("ogd", memory=(self.memory, 1))

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Orthogonal:
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(self.seed)).numpy()
        rows, ids = self.of(train[np.sort(order[: self.memory])], train.network.params)
        return Orthogonal(train.network.params, rows, ids, self.of)

    def of(self, some: Factor, theta: Params) -> tuple[Tensor, np.ndarray]:
        """Rows ∇f, and the id of the example of each."""
        if isinstance(some.network.likelihood.family, Tokens):
            raise BadInput("a sequence has too many outputs to store their gradients; ogd; use ewc or functional")
        rows, ids = [], []
        labelled = isinstance(some.network.likelihood.family, Categorical)
        for at, x, y, _ in some.tiles():
            shape = some.network.outputs(theta, x).shape
            for output in _outputs(shape, y, self.every_output or not labelled):
                grads = general_grads(some.network, theta, x, output, tuple(theta))
                rows.append(torch.cat([grads[k].flatten(1) for k in theta], 1))
                ids.append(some.ids[at])
        return torch.cat(rows), np.concatenate(ids)


def _outputs(shape: torch.Size, y: Tensor, every: bool) -> list[Tensor]:
    """The output to differentiate for each example, as vectors of the shape of the outputs."""
    width = shape[1:].numel()
    eye = torch.eye(width, device=y.device).reshape(width, *shape[1:])
    if every or y.is_floating_point() or y.ndim != 1:
        return [e.expand(shape) for e in eye]
    return [eye[y]]
