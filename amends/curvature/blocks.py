"""The curvature of one layer: A ⊗ G from its inputs and output gradients, or a diagonal in its eigenbasis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from amends.curvature.dense import nonnegative
from amends.errors import NonFinite
from amends.evidence.params import Params


@dataclass(frozen=True)
class Place:
    """Where the matrix [groups, out, in (+1)] of a block is in θ: a weight, with its bias as the last column."""

    groups: int
    weight: str
    bias: str | None

    def pack(self, vector: Params) -> Tensor:
        parts = [vector[self.weight].reshape(self.groups, len(vector[self.weight]) // self.groups, -1)]
        if self.bias is not None:
            parts.append(vector[self.bias].reshape(self.groups, -1, 1))
        return torch.cat(parts, -1)

    def unpack(self, packed: Tensor, like: Params) -> Params:
        if self.bias is None:
            return {self.weight: packed.reshape(like[self.weight].shape)}
        return {
            self.weight: packed[..., :-1].reshape(like[self.weight].shape),
            self.bias: packed[..., -1].reshape(like[self.bias].shape),
        }


def eigen(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors. Half precision is widened, since torch has no routine for it, and so is float32 if
    its routine does not converge."""
    if not symmetric.isfinite().all():
        raise NonFinite(
            "the curvature is NaN or infinite; train; look for inputs that are far larger than the others, or check "
            "the model"
        )
    wide = symmetric if symmetric.dtype in (torch.float32, torch.float64) else symmetric.float()
    try:
        values, vectors = torch.linalg.eigh(wide)
    except RuntimeError:  # it did not converge
        values, vectors = torch.linalg.eigh(wide.double())
    return values.to(symmetric.dtype), vectors.to(symmetric.dtype)


@dataclass(frozen=True, eq=False)
class Block:
    """A ⊗ G / count."""

    place: Place
    inputs: Tensor  # A [groups, in, in]
    grads: Tensor  # G [groups, out, out]
    count: float

    def __matmul__(self, packed: Tensor) -> Tensor:
        return self.grads @ packed @ self.inputs / max(self.count, 1e-30)

    @cached_property
    def spectrum(self) -> Spectrum:
        a, basis_a = eigen(self.inputs)
        g, basis_g = eigen(self.grads)
        values = g.clamp(min=0)[:, :, None] * a.clamp(min=0)[:, None, :] / max(self.count, 1e-30)
        return Spectrum(values, basis_a, basis_g)

    def plus(self, other: Block, sign: float) -> Block:
        """The sum of two blocks. Factors are sums over examples, so this is as if all data were measured together."""
        return replace(
            self,
            inputs=nonnegative(self.inputs + sign * other.inputs),
            grads=nonnegative(self.grads + sign * other.grads),
            count=self.count + sign * other.count,
        )

    def scaled(self, by: float) -> Block:
        """The block as if every example were there `by` times."""
        return replace(self, inputs=by * self.inputs, grads=by * self.grads, count=by * self.count)


class Spectrum(NamedTuple):
    """Curvature [groups, out, in] along the products of two bases."""

    values: Tensor
    basis_a: Tensor
    basis_g: Tensor

    def turned(self, packed: Tensor) -> Tensor:
        return self.basis_g.mT @ packed @ self.basis_a

    def back(self, turned: Tensor) -> Tensor:
        return self.basis_g @ turned @ self.basis_a.mT


@dataclass(frozen=True, eq=False)
class Corrected:
    """A diagonal in the eigenbasis of A ⊗ G."""

    place: Place
    spectrum: Spectrum

    def __matmul__(self, packed: Tensor) -> Tensor:
        return self.spectrum.back(self.spectrum.values * self.spectrum.turned(packed))

    def plus(self, other: Corrected, sign: float) -> Corrected:
        """Adds the other's curvature along our own directions."""
        ours, theirs = self.spectrum, other.spectrum
        g, a = (ours.basis_g.mT @ theirs.basis_g) ** 2, (ours.basis_a.mT @ theirs.basis_a) ** 2
        values = ours.values + sign * (g @ theirs.values @ a.mT)
        return replace(self, spectrum=ours._replace(values=values.clamp(min=0)))

    def scaled(self, by: float) -> Corrected:
        return replace(self, spectrum=self.spectrum._replace(values=by * self.spectrum.values))
