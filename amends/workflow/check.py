"""What a repair would work on, without making one: shapes, one batch forward and backward, a guess at the time."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from amends.algorithm.budget import best_of_two, seconds
from amends.algorithm.problem import Problem
from amends.config.read import Config
from amends.data.inputs import Inputs, leaves
from amends.errors import many
from amends.evidence.factor import Factor
from amends.evidence.params import count
from amends.evidence.prepare import entry
from amends.methods import Default
from amends.nearness.copies import shared
from amends.progress import duration
from amends.workflow.job import Job


@entry
def checked(job: Job) -> dict[str, Any]:
    """Everything `amends check` prints; BadInput where model and data do not fit."""
    given, train = job.given, job.given["train"]
    problem = Problem.of(given, job.options)  # raises where a repair would
    setup = problem.setup
    network, batch = train.network, train[: min(len(train), train.batch)]
    forward, backward = _seconds(batch)
    failed = np.concatenate([problem.split.query, problem.split.holdout, problem.split.other_groups])
    names, counts = np.unique(problem.split.group[failed].astype(str), return_counts=True)
    return {
        "model": type(job.loaded.model).__name__,
        "likelihood": type(network.likelihood).__name__,
        "device": str(network.device),
        "parameters": sum(p.numel() for p in network.module.parameters()),
        "trainable": count(network.params),
        "sets": {
            name: {"n": len(f), "inputs": _shape(f.examples.x), "targets": _shape(f.examples.y)}
            for name, f in given.items()
        },
        "classes": list(train.examples.classes),
        "groups": {n: int(c) for n, c in sorted(zip(names, counts, strict=True), key=lambda g: -g[1])},
        "batch": {"n": len(batch), "forward_s": forward, "backward_s": backward},
        "memory": {"data_mb": sum(map(_bytes, given.values())) / 2**20, "peak_mb": _peak(network.device)},
        "estimate": duration(_guess(given, backward / len(batch), job.config, problem.plan.budget)),
        "right": setup.right,
        "notes": [*job.notes, *setup.alarms, *setup.notes, *_overlap(given)],
    }


def _overlap(given: dict[str, Factor]) -> Iterator[str]:
    """Held-out examples that are in train as well: judging with them is judging with what was learned."""
    for name, data in given.items():
        both = int(shared(data, given["train"]).sum()) if name not in ("train", "failures") else 0
        if both:
            are = many(both, "is", "are")
            yield f"of the {many(len(data), 'example')} of {name} {are} in train too, label and all"


def _seconds(batch: Factor) -> tuple[float, float]:
    """One batch forward, and with derivatives."""
    theta, where = batch.network.params, batch.network.device
    forward = best_of_two(lambda: batch.per_example(theta), where)
    return forward, best_of_two(lambda: batch.value_and_grad(theta), where)


def _guess(given: dict[str, Factor], each: float, config: Config, budget: str) -> float:
    """Seconds of a repair with the choices that `config` leaves to us."""
    counted = config.repair("top") is not None or config.repair("fraction") is not None
    epochs = (config.repair("treat_options") or {}).get("epochs")
    learn = config.repair("learn") is not False
    return seconds(given, Default(budget), each, counted, learn, None if epochs is None else float(epochs))


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
