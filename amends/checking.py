"""What a repair would work on, without making one: shapes, one batch forward and backward, a guess at the time."""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np
import torch

from amends.conflicts import groups
from amends.data.inputs import Inputs, leaves
from amends.evaluation import predicted
from amends.factor import Factor
from amends.job import Job
from amends.prepare import entry, prepare

EDITS = 250  # gradients of failures and as many right examples a default search takes, about
PASSES = 6  # over all of train, for curvature and scores
FITS = 45  # fine-tunings a default curve takes: six sizes and controls, three times each, and learning
EPOCHS = 10  # of each, unless the config says otherwise
RIGHT = 1000  # right examples an edit is held by at most


@entry
def checked(job: Job) -> dict[str, Any]:
    """Everything `amends check` prints; BadInput where model and data do not fit."""
    _ = job.repairing  # methods, groups and options are checked there
    given = prepare(job.loaded.model, job.likelihood, job.config.repair("device"),
                    job.config.repair("batch_size"), **job.sets)  # fmt: skip
    train, failed = given["train"], given["failures"]
    network = train.network
    batch = train[: min(len(train), train.batch)]
    forward, backward = _seconds(batch)
    named = groups(failed, predicted(failed, network.params))
    names, counts = np.unique(named.astype(str), return_counts=True)
    everything = sum(p.numel() for p in network.module.parameters())
    return {
        "model": type(job.loaded.model).__name__,
        "likelihood": type(network.likelihood).__name__,
        "device": str(network.device),
        "parameters": everything,
        "trainable": sum(p.numel() for p in network.params.values()),
        "sets": {
            name: {"n": len(f), "inputs": _shape(f.examples.x), "targets": _shape(f.examples.y)}
            for name, f in given.items()
        },
        "classes": list(train.examples.classes),
        "groups": {n: int(c) for n, c in sorted(zip(names, counts, strict=True), key=lambda g: -g[1])},
        "batch": {"n": len(batch), "forward_s": forward, "backward_s": backward},
        "memory": {"data_mb": sum(map(_bytes, given.values())) / 2**20, "peak_mb": _peak(network.device)},
        "estimate": _time(_guess(len(train), len(failed), "remaining" in given, backward / len(batch), _epochs(job))),
        "notes": list(job.notes),
    }


def _seconds(batch: Factor) -> tuple[float, float]:
    """One batch forward, and with derivatives; each the better of two, the first of which warms up."""
    theta = batch.network.params
    times = []
    for work in (lambda: batch.per_example(theta), lambda: batch.value_and_grad(theta)):
        best = float("inf")
        for _ in range(2):
            start = time.perf_counter()
            work()
            if batch.network.device.type == "cuda":
                torch.cuda.synchronize()
            best = min(best, time.perf_counter() - start)
        times.append(best)
    return times[0], times[1]


def _epochs(job: Job) -> float:
    return float((job.config.repair("treat_options") or {}).get("epochs", EPOCHS))


def _guess(train: int, failures: int, remaining: bool, each: float, epochs: float) -> float:
    """Seconds of a repair with every choice left to us, from the seconds a gradient of one example takes."""
    search = EDITS * (failures / 2 + (RIGHT if remaining else 0)) + PASSES * train
    return each * (search + FITS * epochs * train)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _shape(x: Inputs) -> str:
    if isinstance(x, dict):
        return ", ".join(f"{k} {_shape(v)}" for k, v in x.items())
    return ", ".join(f"{list(t.shape[1:])} {str(t.dtype).removeprefix('torch.')}" for t in leaves(x))


def _bytes(data: Factor) -> int:
    return sum(t.element_size() * t.numel() for t in leaves(data.examples.x))


def _peak(device: torch.device) -> float:
    """Megabytes this process, or the accelerator it works on, has held at most."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / 2**20 if sys.platform == "darwin" else held / 2**10
