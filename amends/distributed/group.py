"""The processes that work on one repair: how many there are, which one this is, and what they tell each other.

Without a process group of torch, or inside `alone`, there is one. Torch is not imported to find that out.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from amends.errors import AmendsError, BadInput, WorkerLost, first_line

if TYPE_CHECKING:
    import torch
    from torch import Tensor

P = ParamSpec("P")
T = TypeVar("T")
GRACE = 2.0  # seconds an error of another rank waits for one's own, which is mostly the same
WATCHED = threading.Event()  # set where `amends.distributed.watch` looks after the group
_ALONE: ContextVar[bool] = ContextVar("alone", default=False)
_SPREAD: ContextVar[bool] = ContextVar("spread", default=False)


def world() -> int:
    """How many processes share the work."""
    dist = sys.modules.get("torch.distributed")
    if _ALONE.get() or dist is None or not dist.is_available() or not dist.is_initialized():
        return 1
    return dist.get_world_size()


def rank() -> int:
    """Which of them this is, from 0; 0 is the one that writes and prints."""
    return 0 if world() == 1 else sys.modules["torch.distributed"].get_rank()


@contextmanager
def alone() -> Iterator[None]:
    """Inside, this process computes everything itself, whatever the others do."""
    token = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(token)


@contextmanager
def spread() -> Iterator[None]:
    """Inside, the processes share every step of a fit or an edit, whose sums then round as many processes round: the
    weights it ends with are the same in each of them, but not to the bit those of another number."""
    token = _SPREAD.set(True)
    try:
        yield
    finally:
        _SPREAD.reset(token)


def spreading() -> bool:
    return _SPREAD.get() and world() > 1


@contextmanager
def together() -> Iterator[None]:
    """What torch says when a process is gone becomes a WorkerLost."""
    try:
        yield
    except AmendsError:
        raise
    except (RuntimeError, ValueError) as e:
        if WATCHED.is_set():
            time.sleep(3 * GRACE)  # whoever watches knows who was lost, says so, and ends this process
        raise WorkerLost(
            f"a process of the group was lost ({first_line(e)}); rank {rank()}; start all of them again"
        ) from e


def wire(device: torch.device) -> torch.device:
    """Where tensors of this device lie while they are sent: an accelerator only if the group has its own way."""
    import torch
    import torch.distributed as dist

    ways = str(dist.get_backend_config())
    if "cpu:" not in ways or (device.type == "cuda" and "cuda:nccl" in ways):
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def from_rank(source: int, tensor: Tensor) -> Tensor:
    """The tensor as that rank has it, on the device of the one that was passed."""
    import torch.distributed as dist

    with together():
        sent = tensor.detach().to(wire(tensor.device), copy=True).contiguous()
        dist.broadcast(sent, source)
    return sent.to(tensor.device)


def broadcast(value: T) -> T:
    """The value that rank 0 passes; those of other ranks are ignored."""
    if world() == 1:
        return value
    import torch.distributed as dist

    box = [value]
    with together():
        dist.broadcast_object_list(box, 0)
    return box[0]


def attempted(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    """What it returns, or an error that can be sent."""
    try:
        return work(), None
    except Exception as e:
        try:
            pickle.loads(pickle.dumps(e))
            return None, e
        except Exception:
            return None, RuntimeError(f"{type(e).__name__}: {first_line(e)}")


def by_first(function: Callable[P, T]) -> Callable[P, T]:
    """For what must happen once: rank 0 does it, alone, and all return what it returned or raise what it raised."""

    @wraps(function)
    def once(*args: P.args, **kwargs: P.kwargs) -> T:
        if world() == 1:
            return function(*args, **kwargs)
        made: tuple[T | None, BaseException | None] = (None, None)
        if rank() == 0:
            with alone():
                made = attempted(lambda: function(*args, **kwargs))
        value, error = broadcast(made)
        if error is not None:
            raise made[1] or error
        return value  # type: ignore[return-value]

    return once


def _here(storage: Any, device: str) -> Any:
    """What was on another process's accelerator comes to this one's."""
    return storage if device == "cpu" else storage.cuda()


def dealt(works: Sequence[Callable[[], T]]) -> list[T]:
    """What each of them returns, in order: every work is done once, by one process, alone, and sent to the others.
    Raises what the first that failed raised."""
    if world() == 1 or len(works) == 1:
        return [work() for work in works]
    import torch
    import torch.distributed as dist

    mine: dict[int, bytes] = {}
    for i in range(rank(), len(works), world()):
        with alone():
            made = attempted(works[i])
        packed = io.BytesIO()
        torch.save(made, packed)
        mine[i] = packed.getvalue()
    found = []
    for i in range(len(works)):
        box = [mine.get(i)]
        with together():
            dist.broadcast_object_list(box, i % world())
        value, error = torch.load(io.BytesIO(box[0] or b""), _here, weights_only=False)
        if error is not None:
            raise error
        found.append(value)
    return found


@contextmanager
def held_by_first(context: AbstractContextManager[T]) -> Iterator[T]:
    """A context, such as a lock, that rank 0 is in for all of them; each gets its value."""
    if world() == 1:
        with context as value:
            yield value
        return
    value = by_first(context.__enter__)()
    error: BaseException | None = None
    try:
        yield value
    except BaseException as e:
        error = e
        raise
    finally:
        if rank() == 0:
            with alone():
                context.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)


def every(value: T) -> list[T]:
    """What each of them passes, rank 0 first; nobody goes on before all have come here."""
    import torch.distributed as dist

    found: list[Any] = [None] * world()
    with together():
        dist.all_gather_object(found, value)
    return found


def alike(what: str, mark: Any, todo: str) -> None:
    """BadInput, in every process, unless all of them have the same mark."""
    if world() == 1:
        return
    marks = every(mark)
    other = next((r for r, m in enumerate(marks) if m != marks[0]), None)
    if other is not None:
        raise BadInput(f"{what} is not the same on every rank; ranks 0 and {other}; {todo}")
