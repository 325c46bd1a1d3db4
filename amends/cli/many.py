"""One of several processes that torchrun started: they compute as one, and rank 0 alone writes and prints."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta

COMPUTING = ("check", "identify", "curve", "treat", "repair", "merge")
PATIENCE = timedelta(days=7)  # rank 0 may write for long; a lost rank is noticed in another way


def is_one_of_many() -> bool:
    """Whether torchrun, or a launcher like it, started several processes of which this is one."""
    return "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def run_as_one(args: list[str], run: Callable[[list[str]], int]) -> int:
    """`run` in this process of the group; commands that compute nothing run in rank 0 alone."""
    rank = int(os.environ["RANK"])
    if not any(arg in COMPUTING for arg in args[:2]):
        return run(args) if rank == 0 else 0
    import torch
    import torch.distributed as dist

    from amends.distributed.watch import watched

    ways = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        ways = "cpu:gloo,cuda:nccl"
    dist.init_process_group(ways, timeout=PATIENCE)
    with watched() as watch:
        if rank == 0:
            code = run(args)
        else:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as captured:
                code = run(args)
            if code not in (0, 1):
                watch.say((captured.getvalue().strip().splitlines() or [f"error: exit code {code}"])[-1])
    sys.stdout.flush()
    sys.stderr.flush()
    if code not in (0, 1):
        if rank:
            watch.until_the_others_end()
        os._exit(code)  # without waiting for those that are still at work
    dist.destroy_process_group()
    return code
