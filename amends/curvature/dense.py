"""The whole matrix: for small models, and as the reference for all other forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Generator, Tensor

from amends.curvature.backprop import general_grads
from amends.curvature.kinds import Measure, Probe, by_row
from amends.errors import OutOfMemory
from amends.evidence.factor import Factor
from amends.evidence.params import Params, count, flatten, unflatten

LIMIT = 20_000


@dataclass(frozen=True, eq=False)
class DensePrecision:
    """Σᵢ wᵢ gᵢgᵢᵀ + λI.

    Where λ is 0, directions without curvature get `damping` times the mean of the diagonal; `flat`
    counts them.
    """

    data: Tensor
    like: Params
    prior: float = 0.0
    damping: float = 1e-3

    @property
    def mean(self) -> float:
        """The mean of the diagonal, without λ."""
        return float(self.data.diagonal().mean())

    def dense(self) -> Tensor:
        return self.data + self.prior * torch.eye(len(self.data), dtype=self.data.dtype, device=self.data.device)

    def __matmul__(self, vector: Params) -> Params:
        return unflatten(self.dense() @ flatten(vector), self.like)

    @cached_property
    def _spectrum(self) -> tuple[Tensor, Tensor, int]:
        values, vectors = torch.linalg.eigh(self.data)
        silent = values <= len(values) * torch.finfo(values.dtype).eps * values[-1].clamp(min=0)
        values = torch.where(silent, 0, values)
        if self.prior > 0:
            return values + self.prior, vectors, int(silent.sum())
        floor = self.damping * self.mean or 1.0
        return torch.where(silent, floor, values), vectors, int(silent.sum())

    @property
    def flat(self) -> int:
        return self._spectrum[2]

    @cached_property
    def _cholesky(self) -> Tensor | None:
        """The Cholesky factor, more exact than the spectrum; None if the matrix is too close to singular."""
        factor, info = torch.linalg.cholesky_ex(self.dense())
        diagonal = factor.diagonal()
        well = int(info) == 0 and float(diagonal.min()) > 1e-6 * float(diagonal.max())
        return factor if well else None

    def solve(self, vector: Params) -> Params:
        right = flatten(vector)
        if self._cholesky is not None:
            return unflatten(torch.cholesky_solve(right[:, None], self._cholesky)[:, 0], self.like)
        values, vectors, _ = self._spectrum
        return unflatten(vectors @ ((vectors.T @ right) / values), self.like)

    def draw(self, generator: Generator) -> Params:
        values, vectors, _ = self._spectrum
        noise = torch.randn(len(values), generator=generator, dtype=torch.float64).to(values)
        return unflatten(
            vectors @ ((vectors.T @ noise) / values.sqrt()), self.like
        )  # the same for either sign of each vector

    def plus(self, other: DensePrecision, sign: float) -> DensePrecision:
        return replace(self, data=nonnegative(self.data + sign * other.data))

    def scaled(self, by: float) -> DensePrecision:
        return replace(self, data=by * self.data)

    def raised(self, by: float) -> DensePrecision:
        return replace(self, prior=self.prior + by)


def nonnegative(matrix: Tensor) -> Tensor:
    """The nearest matrix without negative eigenvalues; the matrix itself if it has none."""
    half = matrix.dtype in (torch.bfloat16, torch.float16)
    values, vectors = torch.linalg.eigh(matrix.float() if half else matrix)
    low = values[..., :1]
    if bool((low >= -1e-9 * values[..., -1:].abs()).all()):
        return matrix
    return ((vectors * values.clamp(min=0)[..., None, :]) @ vectors.mT).to(matrix)


def formed(product: Callable[[Params], Params], like: Params) -> Tensor:
    """The matrix whose products with vectors are given."""
    first = flatten(like)
    eye = torch.eye(len(first), dtype=first.dtype, device=first.device)
    return torch.stack([flatten(product(unflatten(row, like))) for row in eye])


@dataclass(frozen=True)
class Dense(Measure):
    """Measures the whole matrix from per-example gradients, by vmap over the whole model."""

    def __call__(self, factor: Factor, theta: Params) -> DensePrecision:
        size = count(theta)
        if size > LIMIT:
            raise OutOfMemory(
                f"a dense precision of {size} parameters takes {8 * size**2 / 2**30:.0f} GiB; "
                "use Diagonal, Kronecker or CG"
            )
        probe = self.kind.probe(factor)
        total = factor.sum(lambda part: {"": _outer(part, theta, probe)})[""]
        return DensePrecision(total, theta, self.prior, self.damping)


def _outer(part: Factor, theta: Params, probe: Probe) -> Tensor:
    """Σ gᵢgᵢᵀ of one shard."""
    network, size = part.network, count(theta)
    total = flatten(theta).new_zeros(size, size)
    for at, x, y, w in part.tiles():
        with torch.no_grad():
            outputs = network.outputs(theta, x)
        for u in probe(outputs, y, at):
            grads = general_grads(network, theta, x, by_row(u, w.abs().sqrt()), tuple(theta))
            rows = torch.cat([grads[k].flatten(1) for k in theta], 1)
            total += rows.T @ rows
    return total
