"""Several processes of one group, on gloo: started from a server that has torch already, so that each costs little."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.distributed.worlds", "amends.workflow.repair", "pandas", "torch._dynamo"])
PATIENCE = 60  # seconds


def in_group(world: int, work: Callable[..., Any], folder: Path, *args: Any) -> list[Any]:
    """What work(*args) returns, or the exception it raises, in every process of a group, rank 0 first."""
    folder.mkdir(parents=True, exist_ok=True)
    box = CONTEXT.Queue()
    given = (world, work, folder / f"group-{os.urandom(4).hex()}", box, args)
    started = [CONTEXT.Process(target=_member, args=(rank, *given)) for rank in range(world)]
    for process in started:
        process.start()
    try:
        said = dict(box.get(timeout=PATIENCE) for _ in started)
    finally:
        for process in started:
            process.join(timeout=10)
            process.kill()
    return [said[rank] for rank in range(world)]


def _member(rank: int, world: int, work: Callable[..., Any], meeting: Path, box: Any, args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world, timeout=timedelta(seconds=60)
        )
    try:
        box.put((rank, work(*args)))
    except Exception as e:
        traceback.print_exc()
        box.put((rank, e))


def sha256(*values: Any) -> str:
    """Of numbers to the bit, and of all else as it is written."""
    total = hashlib.sha256()
    for value in values:
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        total.update(np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    return total.hexdigest()
