"""Directions in which θ must not move: orthogonal gradient descent (Farajtabar et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from amends.errors import BadInput
from amends.evidence.factor import Factor, Term, Value
from amends.evidence.params import Params, flatten, unflatten

Gradients = Callable[[Factor, Params], tuple[Tensor, np.ndarray]]
DEPENDENT = 1e-6  # singular values below this share of the largest add no direction


@dataclass(frozen=True, eq=False)
class Projected:
    """A factor restricted to the free directions: its gradient g less B Bᵀ g."""

    factor: Factor
    basis: Tensor  # [parameters, directions], orthonormal

    @property
    def weights(self) -> Tensor:
        return self.factor.weights

    def value_and_grad(self, theta: Params) -> tuple[Value, Params]:
        value, grad = self.factor.value_and_grad(theta)
        return value, unflatten(self.free(flatten(grad)), theta)

    def hessian(self, theta: Params) -> Tensor:
        return self.free(self.free(self.factor.hessian(theta)).T)

    def free(self, v: Tensor) -> Tensor:
        v = v - self.basis @ (self.basis.T @ v)
        return v - self.basis @ (self.basis.T @ v)  # twice, to remove the rounding of the first


@dataclass(frozen=True, eq=False)
class Orthogonal:
    """Remembers gradients of the outputs on some examples; evidence may only move θ orthogonally to them.

    To first order, the outputs there stay the same. Deleting an example drops its gradients; inserting
    evidence adds its gradients at the new mean, computed by `gradients`.
    """

    mean: Params
    rows_: Tensor  # [stored, parameters]
    ids: np.ndarray  # whose gradient each row is
    gradients: Gradients
    pending: tuple[tuple[Factor, Params], ...] = ()

    settled = True

    @cached_property
    def stored(self) -> tuple[Tensor, np.ndarray]:
        taken = [self.gradients(factor, where) for factor, where in self.pending]
        return torch.cat([self.rows_, *(r for r, _ in taken)]), np.concatenate([self.ids, *(i for _, i in taken)])

    def basis(self, without: np.ndarray) -> Tensor:
        """An orthonormal basis of all stored gradients, except those of these ids."""
        rows, ids = self.stored
        kept = rows[torch.as_tensor(~np.isin(ids, without), device=rows.device)]
        if not len(kept):
            return kept.new_zeros(rows.shape[1], 0)
        lengths = kept.norm(dim=1, keepdim=True)
        kept = kept[lengths[:, 0] > 0] / lengths[lengths[:, 0] > 0]
        directions, sizes, _ = torch.linalg.svd(kept.T, full_matrices=False)
        return directions[:, sizes > DEPENDENT * sizes.max()]

    def rows(self, f: Callable[[Params], Tensor]) -> Tensor:
        return f(self.mean)[None]

    def times(self, factor: Factor) -> list[Term]:
        basis = self.basis(without=factor.deleted.ids)
        if basis.shape[0] == basis.shape[1]:
            raise BadInput(
                f"the stored gradients span all {len(basis)} parameters, so nothing can move; ogd; lower memory"
            )
        return [Projected(factor, basis)]

    def moved(self, mean: Params, factor: Factor) -> Orthogonal:
        gone = factor.deleted.ids
        kept = ~np.isin(self.ids, gone)
        learned = [(part.without(gone), where) for part, where in self.pending]
        learned = tuple((part, where) for part, where in [*learned, (factor.inserted, mean)] if len(part))
        rows = self.rows_[torch.as_tensor(kept, device=self.rows_.device)]
        return replace(self, mean=mean, rows_=rows, ids=self.ids[kept], pending=learned)
