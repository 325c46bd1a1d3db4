"""Which second-order matrix: Σᵢ wᵢ Σᵣ (Jᵢᵀuᵢᵣ)(Jᵢᵀuᵢᵣ)ᵀ, where each kind has its own output vectors u.

J is the Jacobian of the outputs of one example. Gradients are squared per example and then summed:
the square of a batch gradient would depend on the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from amends.errors import BadInput, at_least
from amends.evidence.factor import Factor
from amends.likelihoods import Likelihood, Tokens, asked

TOKEN_DRAWS = 4  # draws per sequence, instead of the exact curvature
Probe = Callable[[Tensor, Tensor, slice], Iterator[Tensor]]


class Kind(Protocol):
    def probe(self, factor: Factor) -> Probe:
        """(outputs, targets, positions) → the vectors u, each [batch, outputs]."""
        ...


def by_row(vectors: Tensor, scale: Tensor) -> Tensor:
    """Each example's vector times its own number, for outputs of any shape."""
    return vectors * scale.reshape(-1, *[1] * (vectors.ndim - 1))


def slope(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> Tensor:
    """∇ log p(y | outputs) with respect to the outputs, one row per example."""
    with torch.enable_grad():
        leaf = outputs.detach().requires_grad_()
        return torch.autograd.grad(likelihood(leaf, targets).sum(), leaf)[0]


@dataclass(frozen=True)
class Empirical:
    """The empirical Fisher: gradients at the given labels, as in the paper."""

    def probe(self, factor: Factor) -> Probe:
        def vectors(outputs: Tensor, targets: Tensor, at: slice) -> Iterator[Tensor]:
            yield slope(factor.network.likelihood, outputs, targets)

        return vectors


@dataclass(frozen=True)
class Sampled:
    """The Fisher with labels drawn from the model, `draws` times; the batches do not matter."""

    draws: int = 1
    seed: int = 0

    def probe(self, factor: Factor) -> Probe:
        likelihood = factor.network.likelihood
        generator = torch.Generator().manual_seed(self.seed)
        noise: list[Tensor] = []

        def vectors(outputs: Tensor, targets: Tensor, at: slice) -> Iterator[Tensor]:
            if not noise:
                size = outputs.shape[1:] if outputs.ndim == 2 else (*outputs.shape[1:-1], 1)  # a number for each token
                noise.append(torch.rand((self.draws, len(factor), *size), generator=generator, dtype=torch.float64))
            for row in noise[0]:
                labels = asked(likelihood, targets).sample(outputs, row[at].to(outputs.device, outputs.dtype))
                yield slope(likelihood, outputs, labels) / self.draws**0.5

        return vectors


@dataclass(frozen=True)
class GGN:
    """The generalised Gauss-Newton matrix, exact: one backward pass per output.

    Token sequences have far too many outputs; for them it is estimated as the Fisher, which it equals,
    from a few draws per sequence.
    """

    def probe(self, factor: Factor) -> Probe:
        if isinstance(factor.network.likelihood.family, Tokens):
            return Sampled(TOKEN_DRAWS).probe(factor)

        def vectors(outputs: Tensor, targets: Tensor, at: slice) -> Iterator[Tensor]:
            yield from asked(factor.network.likelihood, targets).root(outputs).unbind(1)

        return vectors


@dataclass(frozen=True)
class Measure:
    """The options of every way to measure curvature: which matrix, λ, and the damping, a share of the mean of the
    diagonal that is used if λ is 0 and the data has no curvature."""

    kind: Kind = Empirical()
    prior: float = 0.0
    damping: float = 1e-3

    def __post_init__(self) -> None:
        at_least("curvature", prior=(self.prior, 0.0), damping=(self.damping, 0.0))
        if isinstance(self.kind, type) or not hasattr(self.kind, "probe"):
            raise BadInput(f"kind is {self.kind!r}; curvature; pass an object: GGN(), Empirical() or Sampled()")
