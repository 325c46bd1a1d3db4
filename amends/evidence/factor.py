"""Evidence: Σ wᵢ log p(zᵢ|θ). Positive weights insert, negative ones delete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.func import hessian
from torch.nn.functional import logsigmoid

from amends.data.examples import Examples, Inputs
from amends.data.inputs import in_a_row, there
from amends.distributed.group import spreading, world
from amends.distributed.shards import added, rows, shared, spans, wide
from amends.evidence.network import Network
from amends.evidence.params import Params, flatten, unflatten, zeros_like
from amends.evidence.refusing import named

Value = float | Tensor  # a tensor on a GPU may still be computed; reading it waits


class Term(Protocol):
    """One summand of a log density."""

    def value_and_grad(self, theta: Params) -> tuple[Value, Params]: ...

    def hessian(self, theta: Params) -> Tensor: ...


R = TypeVar("R")
VALUE = ""  # the key of the value, next to the gradients, which have the names of parameters
Summand = Callable[[slice, Params, Inputs, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Factor:
    """Weighted examples under a network. The only class that deals with batches, devices and shards."""

    network: Network
    examples: Examples
    weights: Tensor
    batch: int = 256
    span: tuple[int, int] | None = None  # the shard to compute; positions count from the start of the whole set

    @classmethod
    def of(cls, network: Network, examples: Examples, batch: int = 256) -> Factor:
        return cls(network, examples, torch.ones(1, dtype=torch.float64).expand(len(examples)), batch)

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def ids(self) -> np.ndarray:
        return self.examples.ids

    # --- evidence is added and cancelled by id -------------------------------------------------

    def __neg__(self) -> Factor:
        return -1.0 * self

    def __rmul__(self, scale: float) -> Factor:
        return replace(self, weights=scale * self.weights)

    def __getitem__(self, positions: Any) -> Factor:
        at = positions if in_a_row(positions) else torch.as_tensor(np.arange(len(self))[positions])
        return replace(self, examples=self.examples[positions], weights=self.weights[at])

    def __add__(self, other: Factor) -> Factor:
        """Weights of the same id are added, and examples whose weight becomes zero are dropped: D + (−C) is D∖C."""
        both = np.concatenate([self.ids, other.ids])
        unique, first, inverse = np.unique(both, return_index=True, return_inverse=True)
        weights = np.bincount(inverse, weights=torch.cat([self.weights, other.weights]).numpy(), minlength=len(unique))
        nonzero = np.flatnonzero(weights != 0)
        nonzero = nonzero[np.argsort(first[nonzero])]
        places, summed = first[nonzero], torch.as_tensor(weights[nonzero])
        if len(places) and places.max() < len(self):
            return replace(self[places], weights=summed)
        merged = self.examples + other.examples
        return replace(self, examples=merged[places], weights=summed)

    def without(self, ids: np.ndarray) -> Factor:
        return self[np.flatnonzero(~np.isin(self.ids, ids))]

    @property
    def inserted(self) -> Factor:
        return self[(self.weights > 0).numpy()]

    @property
    def deleted(self) -> Factor:
        return self[(self.weights < 0).numpy()]

    # --- computing -------------------------------------------------------------------------------

    def tiles(self) -> Iterator[tuple[slice, Inputs, Tensor, Tensor]]:
        """Positions, inputs, targets and weights, batch by batch, in order."""
        first, last = self.span or (0, len(self))
        batch = self.network.room.fits(self.batch)
        bounds = [(start, min(start + batch, last)) for start in range(first, last, batch)]
        for (start, stop), (x, y) in zip(bounds, self.examples.batches(bounds, self.network.device), strict=True):
            at = slice(start, stop)
            w = there(self.weights[at].to(self.network.dtype), self.network.device)
            yield at, x, y.to(self.network.device), w

    def targets(self) -> Iterator[tuple[slice, Tensor]]:
        """Positions and targets, batch by batch. Reads no inputs."""
        for start in range(0, len(self), self.batch):
            at = slice(start, min(start + self.batch, len(self)))
            yield at, self.examples.y[at].to(self.network.device)

    def sum(self, f: Callable[[Factor], Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Σ f(shard) over the shards, by name. The `tiles` of a shard are those of its span alone. Shards stay the same
        if a batch does not fit into memory."""
        bounds = spans(len(self), self.batch)
        with self.network.in_step():
            return added(len(bounds), lambda s: self._halving(bounds[s], f))

    def _halving(self, span: tuple[int, int], f: Callable[[Factor], R]) -> R:
        part = self if span == (0, len(self)) else replace(self, span=span)
        with named(part):
            return self.network.room.halving(self.batch, lambda: f(part))

    def rows(self, f: Callable[[slice, Inputs, Tensor], Tensor]) -> Tensor:
        """f(positions, x, y) of every example, in order. The result does not depend on the batches."""
        bounds = spans(len(self), self.batch)

        def of_shard(part: Factor) -> Tensor:
            parts = [f(at, x, y) for at, x, y, _ in part.tiles()]
            if not parts:
                return torch.zeros(0, dtype=self.network.dtype, device=self.network.device)
            return parts[0] if len(parts) == 1 else torch.cat(parts)

        with self.network.in_step():
            return rows(bounds, lambda s: self._halving(bounds[s], of_shard))

    def map(self, f: Callable[[Inputs, Tensor], Tensor]) -> Tensor:
        """f(x, y) of every example, in order. The result does not depend on the batches."""
        return self.rows(lambda _, x, y: f(x, y))

    def per_example(self, theta: Params) -> Tensor:
        """log p(z|θ) of every example, unweighted."""
        return self.map(lambda x, y: self.network.log_prob(theta, x, y))

    def outputs(self, theta: Params) -> Tensor:
        return self.map(lambda x, _: self.network.outputs(theta, x))

    def value_and_grad(self, theta: Params) -> tuple[Value, Params]:
        return self.summed(theta, lambda at, live, x, y, w: w * self.network.log_prob(live, x, y))

    def summed(self, theta: Params, summand: Summand) -> tuple[Value, Params]:
        """Σ summand(positions, θ, x, y, w) and its gradient, batch by batch. If steps are spread over processes and a
        set has fewer shards than there are processes, its batches are divided among the processes instead."""
        if spreading() and not self.network.sharded and len(spans(len(self), self.batch)) < world():
            sums = shared(len(self), lambda span: self._halving(span, lambda part: _summed(part, theta, summand)))
        else:
            sums = self.sum(lambda part: _summed(part, theta, summand))
        return sums.pop(VALUE), sums

    def hessian(self, theta: Params) -> Tensor:
        """∇² of the value, dense: for small problems and exact references."""
        return self.summed_hessian(theta, lambda at, live, x, y, w: w * self.network.log_prob(live, x, y))

    def summed_hessian(self, theta: Params, summand: Summand) -> Tensor:
        return self.sum(lambda part: {VALUE: _hessian(part, theta, summand)})[VALUE]


def _summed(part: Factor, theta: Params, summand: Summand) -> Params:
    """The gradient by name, and the value, for one shard."""
    device, grad = part.network.device, list[Tensor]()
    value = torch.zeros((), dtype=wide(device), device=device)
    leaves = {k: v.detach().requires_grad_() for k, v in theta.items()}
    with torch.enable_grad():
        for at, x, y, w in part.tiles():
            total = summand(at, leaves, x, y, w).sum()
            value = value + total.detach()
            if not total.requires_grad:  # θ was not used
                continue
            parts = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
            if not grad:
                grad = list(parts)
                continue
            for i, one in enumerate(parts):  # not in place: two parts may be the same tensor
                grad[i] = grad[i] + one
    gradients = dict(zip(theta, grad, strict=True)) if grad else zeros_like(theta)
    return {**gradients, VALUE: value}


def _hessian(part: Factor, theta: Params, summand: Summand) -> Tensor:
    flat = flatten(theta)
    total = flat.new_zeros(len(flat), len(flat))
    for at, x, y, w in part.tiles():

        def value(v: Tensor, at: slice = at, x: Inputs = x, y: Tensor = y, w: Tensor = w) -> Tensor:
            return summand(at, unflatten(v, theta), x, y, w).sum()

        total += hessian(value)(flat).detach()
    return total


@dataclass(frozen=True, eq=False)
class Bounded:
    """Deletion with an optimum: 2|w| log σ(ℓ₀ − ℓ) instead of −|w|ℓ, with the same slope at the start.

    ℓ₀ is the log-likelihood before the edit. −ℓ alone has no upper bound, so an example that is already forgotten would
    go on pulling.
    """

    factor: Factor
    reference: Tensor

    @classmethod
    def at(cls, factor: Factor, theta: Params) -> Bounded:
        return cls(factor, factor.per_example(theta))

    def _summand(self, at: slice, theta: Params, x: Inputs, y: Tensor, w: Tensor) -> Tensor:
        return -2 * w * logsigmoid(self.reference[at] - self.factor.network.log_prob(theta, x, y))

    def value_and_grad(self, theta: Params) -> tuple[Value, Params]:
        return self.factor.summed(theta, self._summand)

    def hessian(self, theta: Params) -> Tensor:
        return self.factor.summed_hessian(theta, self._summand)
