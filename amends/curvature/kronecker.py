"""Kronecker-factored curvature (Martens & Grosse 2015; Grosse & Martens 2016 for convolutions).

A layer's block is approximated by A ⊗ G: A sums the outer products of its inputs (with a 1 for the
bias), G those of its output gradients. The places of a convolution or a sequence count as examples.
Layers without such a form keep their exact diagonal.

EKFAC (George et al. 2018) keeps the eigenvectors of A ⊗ G and measures the curvature along each of
them from per-example gradients, which is the best diagonal in that basis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Generator, Tensor

from amends.curvature import rules
from amends.curvature.backprop import Call, Owned, Plan, forward, passes, plan
from amends.curvature.blocks import Block, Corrected, Place, Spectrum
from amends.curvature.dense import formed
from amends.curvature.diagonal import DiagonalPrecision, diagonal, normal_like
from amends.curvature.kinds import Measure, Probe
from amends.evidence.factor import Factor
from amends.evidence.params import Params, count

CHUNK = 2**24  # numbers of per-example gradients held at once


@dataclass(frozen=True, eq=False)
class KroneckerPrecision:
    """Blocks A ⊗ G / n + λI, and a diagonal for the rest. `damping` as for the diagonal."""

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
        """The mean of the diagonal, without λ."""
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
            spectrum = block.spectrum
            turned = spectrum.turned(block.place.pack(vector)) / self._positive(spectrum.values)
            out |= block.place.unpack(spectrum.back(turned), self.like)
        return {k: out[k] for k in self.like}

    def draw(self, generator: Generator) -> Params:
        out = self.rest.draw(generator) if self.rest.data else {}
        for block in self.blocks:
            spectrum = block.spectrum
            noise = normal_like(spectrum.values, generator)
            turned = spectrum.turned(noise) / self._positive(spectrum.values).sqrt()
            out |= block.place.unpack(spectrum.back(turned), self.like)
        return {k: out[k] for k in self.like}

    def plus(self, other: KroneckerPrecision, sign: float) -> KroneckerPrecision:
        pairs = zip(self.blocks, other.blocks, strict=True)
        blocks = tuple(a.plus(b, sign) for a, b in pairs)  # type: ignore[arg-type]
        return replace(self, blocks=blocks, rest=self.rest.plus(other.rest, sign))

    def scaled(self, by: float) -> KroneckerPrecision:
        return replace(self, blocks=tuple(b.scaled(by) for b in self.blocks), rest=self.rest.scaled(by))

    def raised(self, by: float) -> KroneckerPrecision:
        return replace(self, prior=self.prior + by, rest=self.rest.raised(by))

    def dense(self) -> Tensor:
        return formed(self.__matmul__, self.like)


@dataclass(frozen=True)
class Kronecker(Measure):
    """Measures the factors in one forward pass and one backward pass per output vector."""

    def __call__(self, factor: Factor, theta: Params) -> KroneckerPrecision:
        chosen, others = _chosen(factor, theta)
        data = diagonal(factor, theta, self.kind, others)
        taken = {n for o in chosen for n in o.names.values()}
        rest = DiagonalPrecision({k: v for k, v in data.items() if k not in taken}, self.prior, self.damping)
        return KroneckerPrecision(self._blocks(factor, theta, chosen), rest, theta, self.prior, self.damping)

    def _blocks(self, factor: Factor, theta: Params, layers: list[Owned]) -> tuple[Block, ...]:
        probe = self.kind.probe(factor)
        sums = factor.sum(lambda part: _factors(part, theta, probe, layers))
        return tuple(
            Block(
                Place(len(sums[f"a {i}"]), o.names["weight"], o.names.get("bias")),
                sums[f"a {i}"], sums[f"g {i}"], float(sums[f"n {i}"]),
            )
            for i, o in enumerate(layers)
        )  # fmt: skip


def _factors(part: Factor, theta: Params, probe: Probe, layers: list[Owned]) -> dict[str, Tensor]:
    """For each layer i of one shard: A as "a i", G as "g i", and the number of examples and places as "n i"."""
    sums: dict[str, Tensor] = {}
    place = {owned: i for i, owned in enumerate(layers)}
    for _, run, w, vectors in passes(part, theta, probe, layers):
        seen: set[Owned] = set()

        def receive(call: Call, g: Tensor, w: Tensor = w, seen: set[Owned] = seen) -> None:
            owned, i = call.owned, place[call.owned]
            out = _outward(owned, g)
            sums[f"g {i}"] = sums.get(f"g {i}", 0) + torch.einsum("bgot,bgpt->gop", out, out)
            if owned not in seen:  # inputs are those of the batch, whatever is sent back
                seen.add(owned)
                a, _ = _rows(owned, call.input, g)
                weighted = a * w.abs()[:, None, None, None]
                sums[f"a {i}"] = sums.get(f"a {i}", 0) + torch.einsum("bgit,bgjt->gij", weighted, a)
                count = torch.tensor(float(w.abs().sum()) * a.shape[-1], dtype=torch.float64)
                sums[f"n {i}"] = sums.get(f"n {i}", 0) + count

        for vector in vectors:
            run.back(vector, receive)
    return sums


def _chosen(factor: Factor, theta: Params) -> tuple[list[Owned], Plan]:
    """The layers that have a block, and the plan of the rest."""
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
class EKFAC(Measure):
    """Measures the bases of Kronecker, then the curvature along them in a second pass over the data."""

    def __call__(self, factor: Factor, theta: Params) -> KroneckerPrecision:
        factored = Kronecker(self.kind, self.prior, self.damping)(factor, theta)
        layers, _ = _chosen(factor, theta)
        spectra = {o: b.spectrum for o, b in zip(layers, factored.blocks, strict=True)}
        probe = self.kind.probe(factor)
        values = factor.sum(lambda part: _along(part, theta, probe, spectra))
        blocks = tuple(
            Corrected(b.place, spectra[o]._replace(values=values[str(i)]))
            for i, (o, b) in enumerate(zip(layers, factored.blocks, strict=True))
        )
        return replace(factored, blocks=blocks)


def _along(part: Factor, theta: Params, probe: Probe, spectra: dict[Owned, Spectrum]) -> dict[str, Tensor]:
    """The curvature along every eigenvector, for one shard; layer i has the name "i"."""
    values = {o: torch.zeros_like(s.values) for o, s in spectra.items()}

    def receive(call: Call, g: Tensor) -> None:
        owned, spectrum = call.owned, spectra[call.owned]
        a, g = _rows(owned, call.input, g)
        a, g = spectrum.basis_a.mT @ a, spectrum.basis_g.mT @ g
        step = max(1, CHUNK // values[owned].numel())
        for ai, gi in zip(a.split(step), g.split(step), strict=True):
            values[owned] += (gi @ ai.mT).pow_(2).sum(0)

    for _, run, _, vectors in passes(part, theta, probe, list(spectra)):
        for vector in vectors:
            run.back(vector, receive)
    return {str(i): value for i, value in enumerate(values.values())}


def _rows(owned: Owned, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs [batch, groups, in (+1), places] and output gradients [batch, groups, out, places]."""
    if owned.rule is rules.conv:
        a, _ = rules.unfolded(owned.module, a, g)  # type: ignore[arg-type]
    else:
        a = a.reshape(len(a), -1, a.shape[-1]).mT[:, None]
    if "bias" in owned.names:
        a = torch.cat([a, torch.ones_like(a[:, :, :1])], 2)
    return a, _outward(owned, g)


def _outward(owned: Owned, g: Tensor) -> Tensor:
    """Output gradients [batch, groups, out, places]."""
    if owned.rule is rules.conv:
        return g.reshape(len(g), owned.module.groups, g.shape[1] // owned.module.groups, -1)  # type: ignore[operator]
    return g.reshape(len(g), -1, g.shape[-1]).mT[:, None]
