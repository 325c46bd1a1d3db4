"""Inputs and output gradients of the last linear layer, per example."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from amends.curvature import rules
from amends.curvature.backprop import Call, forward, plan
from amends.curvature.kinds import Empirical
from amends.evidence.factor import Factor
from amends.evidence.params import Params

SKETCH = 32  # dimensions of the random projection of either side of a sequence's gradient


def last_layer(data: Factor, theta: Params) -> tuple[Tensor, Tensor]:
    """Inputs (with a 1 for the bias) and output gradients of the last linear layer, per example; for a
    sequence, the mean and the sum over the places that have a gradient.

    A model without such a layer is compared by its outputs alone.
    """
    pairs = [_pooled(a, g) if g.ndim == 3 else (a, g) for a, g in _seen(data, theta)]
    return torch.cat([a for a, _ in pairs]), torch.cat([g for _, g in pairs])


def last_gradients(data: Factor, theta: Params) -> tuple[Tensor, Tensor]:
    """Rows a and g for which (a·a')(g·g') is the dot product of two examples' gradients of the last linear layer.

    The gradient of a sequence is a sum of aₜgₜᵀ over its places. It is replaced by a random projection of
    either side, the same for all examples, which keeps dot products on average.
    """
    pairs = [_sketched(a, g) if g.ndim == 3 else (a, g) for a, g in _seen(data, theta)]
    return torch.cat([a for a, _ in pairs]), torch.cat([g for _, g in pairs])


def _seen(data: Factor, theta: Params) -> Iterator[tuple[Tensor, Tensor]]:
    layers = [o for o in plan(data, theta).layers if o.rule is rules.linear]
    probe = Empirical().probe(data)
    for at, x, y, _ in data.tiles():
        run = forward(data.network, theta, x, layers)
        (vector,) = probe(run.outputs.detach(), y, at)
        seen: list[tuple[Tensor, Tensor]] = []
        if run.calls:

            def receive(call: Call, g: Tensor, seen=seen, last=run.calls[-1]) -> None:
                if call is last:
                    seen.append((call.input, g))

            run.back(vector, receive)
        if seen and seen[0][0].ndim == vector.ndim:
            a, g = seen[0]
            yield torch.cat([a, torch.ones_like(a[..., :1])], -1), g
        else:
            g = vector if vector.ndim == 3 else vector.flatten(1)
            yield torch.ones_like(g[..., :1]), g


def _pooled(a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    mask = (g != 0).any(-1, keepdim=True).to(a)
    return (a * mask).sum(1) / mask.sum(1).clamp(min=1), g.sum(1)


def _sketched(a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    rows = torch.einsum("btk,btl->bkl", _projected(a, 0), _projected(g, 1)).flatten(1)
    return rows, torch.ones_like(rows[:, :1])


def _projected(t: Tensor, seed: int) -> Tensor:
    width = t.shape[-1]
    if width <= SKETCH:
        return t
    noise = torch.Generator().manual_seed(seed)
    return t @ (torch.randn(width, SKETCH, generator=noise, dtype=torch.float64) / SKETCH**0.5).to(t)
