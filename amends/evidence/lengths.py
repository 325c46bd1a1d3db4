"""Sequences of like length together, so that little of a batch is padding."""

from __future__ import annotations

import torch
from torch import Tensor

from amends.data.inputs import Inputs, each
from amends.data.targets import NO_TARGET

FEWER = 0.75  # of the places of a batch at most, or it stays as it is


def by_length(x: Inputs, y: Tensor) -> list[tuple[Tensor, Inputs, Tensor]]:
    """Rows of a batch of token sequences, their inputs and their targets, in groups, without the padding that all of a
    group have at the end. Nothing where it is not padded, or where little would be saved.

    A place is padding where the attention mask is 0 and no token is asked. Each group is at least half as long as its
    longest sequence, so there are few of them.
    """
    mask = x.get("attention_mask") if isinstance(x, dict) else None
    if mask is None or mask.ndim != 2 or y.shape[:2] != mask.shape or any(map(_wrapped, (mask, y))):
        return []
    there = (mask.to(y.device) != 0) | (y.sum(-1) > 0 if y.is_floating_point() else y != NO_TARGET)
    places = torch.arange(1, mask.shape[1] + 1, device=y.device)
    lengths = (there * places).amax(1).clamp(min=2).cpu()
    order = lengths.argsort(descending=True, stable=True)
    groups, start = list[tuple[Tensor, int]](), 0
    for end in range(1, len(order) + 1):
        if end == len(order) or 2 * lengths[order[end]] <= lengths[order[start]]:
            groups.append((order[start:end], int(lengths[order[start]])))
            start = end
    if sum(len(rows) * longest for rows, longest in groups) > FEWER * mask.numel():
        return []
    shape = mask.shape
    return [(rows.to(y.device), each(x, lambda t, r=rows, n=n: _cut(t, r, n, shape)), y[rows.to(y.device), :n])
            for rows, n in groups]  # fmt: skip


def _cut(t: Tensor, rows: Tensor, longest: int, shape: torch.Size) -> Tensor:
    part = t[rows.to(t.device)]
    return part[:, :longest] if t.shape[:2] == shape else part


def _wrapped(t: Tensor) -> bool:
    """Whether torch.func is taking it apart, so that its values cannot be asked for."""
    return torch._C._functorch.is_functorch_wrapped_tensor(t)  # type: ignore[attr-defined]
