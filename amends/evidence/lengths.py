"""Sequences of similar length are computed together, so that little of a batch is padding."""

from __future__ import annotations

import torch
from torch import Tensor

from amends.data.inputs import Inputs, each
from amends.data.targets import NO_TARGET

FEWER = 0.75  # a batch is only divided if at most this share of its places is left


def by_length(x: Inputs, y: Tensor) -> list[tuple[Tensor, Inputs, Tensor]]:
    """The rows of a batch of token sequences in groups, each with its inputs and targets, without the padding that all
    of a group have at the end. An empty list if there is no padding, or if little would be saved.

    A place is padding if the attention mask is 0 and it has no target token. Each sequence is more than half as long as
    the longest of its group, so there are few groups.
    """
    mask = x.get("attention_mask") if isinstance(x, dict) else None
    if mask is None or mask.ndim != 2 or y.shape[:2] != mask.shape or any(map(_wrapped, (mask, y))):
        return []
    used = (mask.to(y.device) != 0) | (y.sum(-1) > 0 if y.is_floating_point() else y != NO_TARGET)
    places = torch.arange(1, mask.shape[1] + 1, device=y.device)
    lengths = (used * places).amax(1).clamp(min=2).cpu()
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
    """Whether torch.func is transforming this tensor, so that its values cannot be read."""
    return torch._C._functorch.is_functorch_wrapped_tensor(t)  # type: ignore[attr-defined]
