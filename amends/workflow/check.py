"""What a repair would work on, without making one: shapes, one batch forward and backward, a guess at the time."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch

from amends.algorithm.choose import BESIDE
from amends.algorithm.problem import Problem
from amends.committee.decide import LESS, MOST, SHOWN
from amends.config.read import Config
from amends.data.inputs import Inputs, leaves
from amends.editors import Mode
from amends.editors.climb import Adam
from amends.evaluation.predictions import groups
from amends.evidence.factor import Factor
from amends.evidence.params import LARGE, count
from amends.evidence.prepare import entry
from amends.methods import Default
from amends.nearness.copies import shared
from amends.workflow.job import Job

EDITS = 400  # gradients of failures and right examples a default search takes, about
PASSES = 30  # over all of train, for curvature and scores
FITS = (31, 14)  # fine-tunings of a default repair: that forget, sizes and controls three times each; that also learn
ASKED = (11, 10)  # the same, where the number to remove is given
SPARED, SPARED_ASKED = (12, 8), (5, 6)  # both for a large model
STEPS = 8  # of fine-tuning, made to see how long one takes


@entry
def checked(job: Job) -> dict[str, Any]:
    """Everything `amends check` prints; BadInput where model and data do not fit."""
    given, train = job.given, job.given["train"]
    setup = Problem.of(given, job.options).setup  # raises where a repair would
    network, batch = train.network, train[: min(len(train), train.batch)]
    forward, backward = _seconds(batch)
    names, counts = np.unique(groups(given["failures"]).astype(str), return_counts=True)
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
        "estimate": _time(_guess(given, backward / len(batch), job.config)),
        "right": setup.right,
        "notes": [*job.notes, *setup.alarms, *setup.notes, *_overlap(given)],
    }


def _overlap(given: dict[str, Factor]) -> Iterator[str]:
    """Held-out examples that are in train as well: what is judged with them is judged with what was learned."""
    for name, data in given.items():
        both = int(shared(data, given["train"]).sum()) if name not in ("train", "failures") else 0
        if both:
            yield f"{both} of the {len(data)} examples of {name} are in train too, label and all"


def _seconds(batch: Factor) -> tuple[float, float]:
    """One batch forward, and with derivatives."""
    theta, where = batch.network.params, batch.network.device
    forward = _best_of_two(lambda: batch.per_example(theta), where)
    return forward, _best_of_two(lambda: batch.value_and_grad(theta), where)


def _best_of_two(work: Callable[[], Any], device: torch.device) -> float:
    """Seconds; the first time warms up."""
    best = float("inf")
    for _ in range(2):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def _guess(given: dict[str, Factor], each: float, config: Config) -> float:
    """Seconds of a repair with the choices that `config` leaves to us: from those that the gradient of one example
    takes in a batch, and from some steps of fine-tuning."""
    n, failed, right = (len(given[name]) if name in given else 0 for name in ("train", "failures", "remaining"))
    large = count(given["train"].network.params) >= LARGE
    search = EDITS * (min(failed / 2, SHOWN) + min(right / 2, MOST)) / (LESS if large else 1) + PASSES * n
    climb = cast("Adam", cast("Mode", Default().treating(0, n).editor).climb)
    (plain, learning), seen = _fits(config, large), n + failed / 2 + min(right / 2, BESIDE * n)
    passes = float((config.repair("treat_options") or {}).get("epochs", climb.epochs))
    return each * search + _step(given["train"], climb) * passes * (plain * n + learning * seen) / climb.batch


def _fits(config: Config, large: bool) -> tuple[int, int]:
    """How many fine-tunings forget, and how many learn as well."""
    asked = config.repair("top") is not None or config.repair("fraction") is not None
    plain, learning = (SPARED_ASKED if large else ASKED) if asked else (SPARED if large else FITS)
    return plain, 0 if config.repair("learn") is False else learning


def _step(train: Factor, climb: Adam) -> float:
    """Seconds of one step of fine-tuning."""
    few = train[: STEPS * climb.batch]
    steps = -(-len(few) // climb.batch)
    return _best_of_two(lambda: list(replace(climb, epochs=1)([few], few.network.params)), few.network.device) / steps


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
