"""The seconds a call takes; on a GPU, until its work is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


def timed(f: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    out = f()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return out, time.perf_counter() - start
