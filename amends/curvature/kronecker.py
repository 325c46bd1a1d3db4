"""Kronecker-factored curvature (Martens & Grosse 2015; Grosse & Martens 2016 for convolutions).

A layer's block is approximated by A ⊗ G: A sums the outer products of its inputs (with a 1 for
the bias), G those of its output gradients. Positions of a convolution or a sequence count as
examples of their own. Layers without such a form keep their exact diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Generator, Tensor

from amends.curvature import rules
from amends.curvature.backprop import Call, Owned, Plan, forward, plan
from amends.curvature.dense import nonnegative
from amends.curvature.diagonal import DiagonalPrecision, diagonal, normal_like
from amends.curvature.kinds import Empirical, Kind
from amends.factor import Factor
from amends.params import Params, count, flatten, unflatten


@dataclass(frozen=True, eq=False)
class Block:
    """A ⊗ G / count for one weight [out, in] per group, with its bias as a last column."""

    inputs: Tensor  # [groups, in, in]
    grads: Tensor  # [groups, out, out]
    count: float
    weight: str
    bias: str | None

    def pack(self, vector: Params) -> Tensor:
        groups, out = self.grads.shape[:2]
        parts = [vector[self.weight].reshape(groups, out, -1)]
        if self.bias is not None:
            parts.append(vector[self.bias].reshape(groups, out, 1))
        return torch.cat(parts, -1)

    def unpack(self, packed: Tensor, like: Params) -> Params:
        if self.bias is None:
            return {self.weight: packed.reshape(like[self.weight].shape)}
        return {
            self.weight: packed[..., :-1].reshape(like[self.weight].shape),
            self.bias: packed[..., -1].reshape(like[self.bias].shape),
        }

    def __matmul__(self, packed: Tensor) -> Tensor:
        return self.grads @ packed @ self.inputs / max(self.count, 1e-30)

    @cached_property
    def spectrum(self) -> tuple[Tensor, Tensor, Tensor]:
        """Eigenvalues [groups, out, in] and the two bases."""
        a, basis_a = torch.linalg.eigh(self.inputs)
        g, basis_g = torch.linalg.eigh(self.grads)
        values = g.clamp(min=0)[:, :, None] * a.clamp(min=0)[:, None, :] / max(self.count, 1e-30)
        return values, basis_a, basis_g


@dataclass(frozen=True, eq=False)
class KroneckerPrecision:
    """Blocks A ⊗ G / n + λI, and a diagonal for the rest. Damping as for the diagonal."""

    blocks: tuple[Block, ...]
    rest: DiagonalPrecision
    like: Params
    prior: float = 0.0
    damping: float = 1e-3

    def __matmul__(self, vector: Params) -> Params:
        out = self.rest @ {k: vector[k] for k in self.rest.data}
        for block in self.blocks:
            packed = block.pack(vector)
            out |= block.unpack(block @ packed + self.prior * packed, self.like)
        return {k: out[k] for k in self.like}

    @cached_property
    def _mean(self) -> float:
        total = sum(float(b.spectrum[0].sum()) for b in self.blocks)
        total += sum(float(v.sum()) for v in self.rest.data.values())
        return total / max(1, count(self.like))

    def _silent(self, values: Tensor) -> Tensor:
        return values <= values.shape[-1] * torch.finfo(values.dtype).eps * values.max()

    @property
    def flat(self) -> int:
        return int(sum(self._silent(b.spectrum[0]).sum() for b in self.blocks)) + self.rest.flat

    def _positive(self, values: Tensor) -> Tensor:
        if self.prior > 0:
            return values + self.prior
        return torch.where(self._silent(values), self.damping * self._mean or 1.0, values)

    def solve(self, vector: Params) -> Params:
        out = self.rest.solve({k: vector[k] for k in self.rest.data}) if self.rest.data else {}
        for block in self.blocks:
            values, basis_a, basis_g = block.spectrum
            turned = basis_g.mT @ block.pack(vector) @ basis_a / self._positive(values)
            out |= block.unpack(basis_g @ turned @ basis_a.mT, self.like)
        return {k: out[k] for k in self.like}

    def draw(self, generator: Generator) -> Params:
        out = self.rest.draw(generator) if self.rest.data else {}
        for block in self.blocks:
            values, basis_a, basis_g = block.spectrum
            turned = normal_like(values, generator) / self._positive(values).sqrt()
            out |= block.unpack(basis_g @ turned @ basis_a.mT, self.like)
        return {k: out[k] for k in self.like}

    def plus(self, other: KroneckerPrecision, sign: float) -> KroneckerPrecision:
        """Factors are sums over examples, so they add as if the data had been seen together."""
        blocks = tuple(
            replace(
                a,
                inputs=nonnegative(a.inputs + sign * b.inputs),
                grads=nonnegative(a.grads + sign * b.grads),
                count=a.count + sign * b.count,
            )
            for a, b in zip(self.blocks, other.blocks, strict=True)
        )
        return replace(self, blocks=blocks, rest=self.rest.plus(other.rest, sign))

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

    def __call__(self, factor: Factor, theta: Params) -> KroneckerPrecision:
        layout = plan(factor, theta)
        x, _ = factor.examples.fetch(0, min(2, len(factor)))
        uses = forward(factor.network, theta, x, layout.layers).uses
        chosen = [
            o
            for o in layout.layers
            if o.rule in (rules.linear, rules.conv)
            and "weight" in o.names
            and all(uses[n] == 1 for n in o.names.values())
        ]
        others = Plan(tuple(o for o in layout.layers if o not in chosen), layout.general)
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
                run.back(u * w.abs().sqrt()[:, None], receive)
        return tuple(Block(inputs[o], grads[o], counts[o], o.names["weight"], o.names.get("bias")) for o in layers)


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
