"""Kronecker-factored curvature (Martens & Grosse 2015; Grosse & Martens 2016 for convolutions).

A layer's block is approximated by A ⊗ G: A sums the outer products of its inputs (with a 1 for
the bias), G those of its output gradients. Positions of a convolution or a sequence count as
examples of their own. Layers without such a form keep their exact diagonal.

EKFAC (George et al. 2018) keeps the eigenvectors of A ⊗ G and measures the curvature along each of
them from per-example gradients, which is the best diagonal in that basis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from amends.curvature import rules
from amends.curvature.backprop import Call, Owned, Plan, forward, plan
from amends.curvature.dense import nonnegative
from amends.curvature.diagonal import DiagonalPrecision, diagonal, normal_like
from amends.curvature.kinds import Empirical, Kind, by_row, check_measure
from amends.evidence.factor import Factor
from amends.evidence.params import Params, count, flatten, unflatten

CHUNK = 2**24  # numbers of per-example gradients held at once


@dataclass(frozen=True)
class Place:
    """Where a block's matrix [groups, out, in (+1)] lives in θ: a weight, its bias as last column."""

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
    """Values and vectors; half precision is widened for it, since torch has no routine of its own."""
    wide = symmetric if symmetric.dtype in (torch.float32, torch.float64) else symmetric.float()
    values, vectors = torch.linalg.eigh(wide)
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
        """Factors are sums over examples, so they add as if the data had been seen together."""
        return replace(
            self,
            inputs=nonnegative(self.inputs + sign * other.inputs),
            grads=nonnegative(self.grads + sign * other.grads),
            count=self.count + sign * other.count,
        )

    def scaled(self, by: float) -> Block:
        """As if every example had been seen `by` times."""
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
        """The other's curvature along our own directions."""
        ours, theirs = self.spectrum, other.spectrum
        g, a = (ours.basis_g.mT @ theirs.basis_g) ** 2, (ours.basis_a.mT @ theirs.basis_a) ** 2
        values = ours.values + sign * (g @ theirs.values @ a.mT)
        return replace(self, spectrum=ours._replace(values=values.clamp(min=0)))

    def scaled(self, by: float) -> Corrected:
        return replace(self, spectrum=self.spectrum._replace(values=by * self.spectrum.values))


@dataclass(frozen=True, eq=False)
class KroneckerPrecision:
    """Blocks A ⊗ G / n + λI, and a diagonal for the rest. Damping as for the diagonal."""

    blocks: tuple[Block, ...] | tuple[Corrected, ...]
    rest: DiagonalPrecision
    like: Params
    prior: float = 0.0
    damping: float = 1e-3

    def __matmul__(self, vector: Params) -> Params:
        out = self.rest @ {k: vector[k] for k in self.rest.data}
        for block in self.blocks:
            packed = block.place.pack(vector)
            out |= block.place.unpack(block @ packed + self.prior * packed, self.like)
        return {k: out[k] for k in self.like}

    @cached_property
    def mean(self) -> float:
        """Of the diagonal, without λ."""
        total = sum(float(b.spectrum.values.sum()) for b in self.blocks)
        total += sum(float(v.sum()) for v in self.rest.data.values())
        return total / max(1, count(self.like))

    def _silent(self, values: Tensor) -> Tensor:
        return values <= values.shape[-1] * torch.finfo(values.dtype).eps * values.max()

    @property
    def flat(self) -> int:
        return int(sum(self._silent(b.spectrum.values).sum() for b in self.blocks)) + self.rest.flat

    def _positive(self, values: Tensor) -> Tensor:
        if self.prior > 0:
            return values + self.prior
        return torch.where(self._silent(values), self.damping * self.mean or 1.0, values)

    def solve(self, vector: Params) -> Params:
        out = self.rest.solve({k: vector[k] for k in self.rest.data}) if self.rest.data else {}
        for block in self.blocks:
            found = block.spectrum
            turned = found.turned(block.place.pack(vector)) / self._positive(found.values)
            out |= block.place.unpack(found.back(turned), self.like)
        return {k: out[k] for k in self.like}

    def draw(self, generator: Generator) -> Params:
        out = self.rest.draw(generator) if self.rest.data else {}
        for block in self.blocks:
            found = block.spectrum
            turned = found.turned(normal_like(found.values, generator)) / self._positive(found.values).sqrt()
            out |= block.place.unpack(found.back(turned), self.like)
        return {k: out[k] for k in self.like}

    def plus(self, other: KroneckerPrecision, sign: float) -> KroneckerPrecision:
        pairs = zip(self.blocks, other.blocks, strict=True)
        blocks = tuple(a.plus(b, sign) for a, b in pairs)  # type: ignore[arg-type]
        return replace(self, blocks=blocks, rest=self.rest.plus(other.rest, sign))

    def scaled(self, by: float) -> KroneckerPrecision:
        return replace(self, blocks=tuple(b.scaled(by) for b in self.blocks), rest=self.rest.scaled(by))

    def damped(self, relative: float) -> KroneckerPrecision:
        prior = self.prior + relative * self.mean
        return replace(self, prior=prior, rest=replace(self.rest, prior=prior))

    def dense(self) -> Tensor:
        first = flatten(self.like)
        eye = torch.eye(len(first), dtype=first.dtype, device=first.device)
        return torch.stack([flatten(self @ unflatten(row, self.like)) for row in eye])


@dataclass(frozen=True)
class Kronecker:
    """Measures it in one forward pass and one backward pass per output vector."""

    kind: Kind = Empirical()  # noqa: RUF009 (frozen, without state)
    prior: float = 0.0
    damping: float = 1e-3

    def __post_init__(self) -> None:
        check_measure(self.kind, self.prior, self.damping)

    def __call__(self, factor: Factor, theta: Params) -> KroneckerPrecision:
        chosen, others = _chosen(factor, theta)
        data = diagonal(factor, theta, self.kind, others)
        taken = {n for o in chosen for n in o.names.values()}
        rest = DiagonalPrecision({k: v for k, v in data.items() if k not in taken}, self.prior, self.damping)
        return KroneckerPrecision(self._blocks(factor, theta, chosen), rest, theta, self.prior, self.damping)

    def _blocks(self, factor: Factor, theta: Params, layers: list[Owned]) -> tuple[Block, ...]:
        inputs: dict[Owned, Tensor] = {}
        grads: dict[Owned, Tensor] = {}
        counts: dict[Owned, float] = {}
        probe = self.kind.probe(factor)
        for at, x, y, w in factor.tiles():
            seen: set[Owned] = set()

            def receive(call: Call, g: Tensor, w: Tensor = w, seen: set[Owned] = seen) -> None:
                owned = call.owned
                a, g = _rows(owned, call.input, g)
                grads[owned] = grads.get(owned, 0) + torch.einsum("bgot,bgpt->gop", g, g)
                if owned not in seen:
                    seen.add(owned)
                    weighted = a * w.abs()[:, None, None, None]
                    inputs[owned] = inputs.get(owned, 0) + torch.einsum("bgit,bgjt->gij", weighted, a)
                    counts[owned] = counts.get(owned, 0.0) + float(w.abs().sum()) * a.shape[-1]

            run = forward(factor.network, theta, x, layers)
            for u in probe(run.outputs.detach(), y, at):
                run.back(by_row(u, w.abs().sqrt()), receive)
        return tuple(
            Block(Place(len(inputs[o]), o.names["weight"], o.names.get("bias")), inputs[o], grads[o], counts[o])
            for o in layers
        )


def _chosen(factor: Factor, theta: Params) -> tuple[list[Owned], Plan]:
    """The layers with a block, and the plan of the rest."""
    layout = plan(factor, theta)
    x, _ = factor.examples.fetch(0, min(2, len(factor)))
    uses = forward(factor.network, theta, x, layout.layers).uses
    chosen = [
        o
        for o in layout.layers
        if o.rule in (rules.linear, rules.conv) and "weight" in o.names and all(uses[n] == 1 for n in o.names.values())
    ]
    return chosen, Plan(tuple(o for o in layout.layers if o not in chosen), layout.general)


@dataclass(frozen=True)
class EKFAC:
    """Kronecker's bases, then a second pass over the data for the curvature along them."""

    kind: Kind = Empirical()  # noqa: RUF009 (frozen, without state)
    prior: float = 0.0
    damping: float = 1e-3

    def __post_init__(self) -> None:
        check_measure(self.kind, self.prior, self.damping)

    def __call__(self, factor: Factor, theta: Params) -> KroneckerPrecision:
        factored = Kronecker(self.kind, self.prior, self.damping)(factor, theta)
        layers, _ = _chosen(factor, theta)
        spectra = {o: b.spectrum for o, b in zip(layers, factored.blocks, strict=True)}
        values = {o: torch.zeros_like(s.values) for o, s in spectra.items()}

        def receive(call: Call, g: Tensor) -> None:
            owned, spectrum = call.owned, spectra[call.owned]
            a, g = _rows(owned, call.input, g)
            a, g = spectrum.basis_a.mT @ a, spectrum.basis_g.mT @ g
            step = max(1, CHUNK // values[owned].numel())
            for ai, gi in zip(a.split(step), g.split(step), strict=True):
                values[owned] += (gi @ ai.mT).pow_(2).sum(0)

        probe = self.kind.probe(factor)
        for at, x, y, w in factor.tiles():
            run = forward(factor.network, theta, x, layers)
            for u in probe(run.outputs.detach(), y, at):
                run.back(by_row(u, w.abs().sqrt()), receive)
        blocks = tuple(
            Corrected(b.place, spectra[o]._replace(values=values[o]))
            for o, b in zip(layers, factored.blocks, strict=True)
        )
        return replace(factored, blocks=blocks)


def _rows(owned: Owned, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs [batch, groups, in (+1), places] and output gradients [batch, groups, out, places]."""
    if owned.rule is rules.conv:
        a, g = rules.unfolded(owned.module, a, g)  # type: ignore[arg-type]
    else:
        a = a.reshape(len(a), -1, a.shape[-1]).mT[:, None]
        g = g.reshape(len(g), -1, g.shape[-1]).mT[:, None]
    if "bias" in owned.names:
        a = torch.cat([a, torch.ones_like(a[:, :, :1])], 2)
    return a, g
