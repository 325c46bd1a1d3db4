"""Sums and rows over the shards of a set, in their order.

A set is cut by its size and its batches alone, never by how many processes there are, and a shard is whole batches in
a row. What a shard adds up is added to the others in float64, shard after shard. So one process computes what any
number of them do, to the bit: no example is padded or counted twice, and a process that has none waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from amends.distributed.group import broadcast, from_rank, rank, together, wire, world

SHARDS = 64  # of a set at most
BATCHES = 4  # of a shard at least: a set of no more is one shard, and every process computes it for itself

Named = Mapping[str, Tensor]


def spans(n: int, batch: int) -> list[tuple[int, int]]:
    """Where the shards of n examples begin and end."""
    batches = -(-n // batch)
    each = batch * max(BATCHES, -(-batches // SHARDS))
    return [(start, min(start + each, n)) for start in range(0, max(n, 1), each)]


def added(count: int, part: Callable[[int], Named]) -> dict[str, Tensor]:
    """Σ part(s) over the shards s = 0, 1, ..., by name, summed in float64."""
    if count == 1:
        return dict(part(0))
    total: dict[str, Tensor] = {}
    like: Named = {}
    for first in range(0, count, world()):
        mine = part(first + rank()) if first + rank() < count else None
        like = like or (mine if mine is not None and count >= world() else _likeness(mine))
        for one in _in_order(mine, like, min(world(), count - first)):
            for name, value in one.items():
                total[name] = value.to(wide(value.device), copy=True) if name not in total else total[name].add_(value)
    return {name: value.to(like[name].dtype) for name, value in total.items()}


def shared(n: int, part: Callable[[tuple[int, int]], Named]) -> dict[str, Tensor]:
    """Σ part((first, last)) over n examples, cut into one part for each process, which adds no other: every process
    ends with the same bits, which are not those of another number of them."""
    mine = dict(part((n * rank() // world(), n * (rank() + 1) // world())))
    for names in _by_kind(mine):
        own = torch.cat([mine[k].detach().reshape(-1) for k in names])
        sent = own.to(wire(own.device))
        with together():
            dist.all_reduce(sent)
        parts = sent.to(own.device).split([mine[k].numel() for k in names])
        mine |= {k: p.view(mine[k].shape) for k, p in zip(names, parts, strict=True)}
    return mine


def rows(bounds: list[tuple[int, int]], part: Callable[[int], Tensor]) -> Tensor:
    """part(s) of every shard, one after the other: one row for each example."""
    if len(bounds) == 1 or _derived():
        found = [part(s) for s in range(len(bounds))]
        return found[0] if len(found) == 1 else torch.cat(found)
    every = None  # written as it comes, so that there is one of it
    for s in range(rank(), len(bounds), world()):
        one = part(s)
        every = one.new_empty(bounds[-1][1], *one.shape[1:]) if every is None else every
        every[bounds[s][0] : bounds[s][1]] = one
    if len(bounds) < world():
        like = _likeness(None if every is None else {"": every[:1]})[""]
        every = like.new_empty(bounds[-1][1], *like.shape[1:]) if every is None else every
    assert every is not None
    for s, (start, stop) in enumerate(bounds if world() > 1 else []):
        every[start:stop] = from_rank(s % world(), every[start:stop])
    return every


def _derived() -> bool:
    """Whether a derivative is being taken of the rows: it does not travel, so each process computes all of them."""
    inside = torch._C._functorch.peek_interpreter_stack()  # type: ignore[attr-defined]
    return torch.is_grad_enabled() or inside is not None


def wide(device: torch.device) -> torch.dtype:
    """In which sums are made there."""
    return torch.float32 if device.type == "mps" else torch.float64


def _likeness(mine: Named | None) -> Named:
    """As rank 0 has it in name, shape and dtype, for a process that has no shard of its own too."""
    shapes = {k: (tuple(v.shape), v.dtype, v.device.type) for k, v in (mine or {}).items()}
    return {k: torch.zeros(shape, dtype=dtype, device=kind) for k, (shape, dtype, kind) in broadcast(shapes).items()}


def _by_kind(tensors: Named) -> list[list[str]]:
    """The names of those that can travel as one tensor."""
    kinds = {(v.dtype, v.device) for v in tensors.values()}
    return sorted([k for k, v in tensors.items() if (v.dtype, v.device) == kind] for kind in kinds)


def _in_order(mine: Named | None, like: Named, count: int) -> Iterator[Named]:
    """What the first `count` processes have, rank 0 first."""
    if world() == 1:
        assert mine is not None
        yield mine
        return
    every: list[dict[str, Tensor]] = [{} for _ in range(world())]
    for names in _by_kind(like):
        own = torch.cat([(like if mine is None else mine)[k].detach().reshape(-1) for k in names])
        sent = own.to(wire(own.device))
        flat = [torch.empty_like(sent) for _ in range(world())]
        with together():
            dist.all_gather(flat, sent)
        for one, buffer in zip(every, flat, strict=True):
            parts = buffer.split([like[k].numel() for k in names])
            one |= {k: p.view(like[k].shape).to(like[k].device) for k, p in zip(names, parts, strict=True)}
    yield from every[:count]
