"""What a repair will cost, before it is made: examples gone through, forward and backward."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch

from amends.editors import Adam, Mode
from amends.errors import BadInput
from amends.evidence.factor import Factor
from amends.evidence.params import large
from amends.methods import Default
from amends.settings import BUDGETS, Settings

EVALUATIONS = 1.25  # of the objective in a step of L-BFGS, with its line search
TANGENTS = ("grad_dot", "linear")  # members without steps: a derivative along one direction, forward
HOLDING = ("functional", "functional + ewc")  # members that right examples hold
STEPS = 8  # of fine-tuning, made to see how long one takes


class Size(NamedTuple):
    """How many examples there are of each."""

    train: int
    failures: int
    right: int

    @classmethod
    def of(cls, given: dict[str, Factor]) -> Size:
        return cls(*(len(given[name]) if name in given else 0 for name in ("train", "failures", "remaining")))


def search(settings: Settings, size: Size) -> float:
    """Gradients of one example that identifying takes."""
    edits, trials = settings.identifying.edits, settings.identifying.trials
    shown, held = min(size.failures / 4, trials.shown), min(size.right / 4, trials.held)
    each = 0.0
    for name in edits.members:
        if name in TANGENTS or name == "loss":
            continue
        steps = edits.steps_held if name in HOLDING else edits.steps
        each += steps * EVALUATIONS * (shown + (held if name in HOLDING else 0))
    scored = 2 * size.train * sum(1.0 if name in TANGENTS else 0.4 for name in edits.members)
    return (4 if trials.whole else 2) * each + scored


def fits(settings: Settings, others: int, asked: bool, learn: bool) -> tuple[float, float]:
    """How many whole fine-tunings forget, and how many learn as well; `others` is how many ways to forget are tried
    beside the usual one."""
    curve, learning = settings.curve, settings.learning
    sizes = 1 if asked else len(curve.shares)
    if curve.refits_of_all:
        plain = others + curve.refits * (1 + 2 * sizes)
    else:
        plain = curve.short * (1 + others + sizes) + 3 * curve.refits
    return plain, (2 * curve.short * (1 + learning.sizes) + curve.refits + 1) if learn else 0.0


def seconds(given: dict[str, Factor], default: Default, each: float, asked: bool = False, learn: bool = True,
            epochs: float | None = None) -> float:  # fmt: skip
    """Of a repair, from those that the gradient of each example takes in a batch and some steps of fine-tuning."""
    train, size = given["train"], Size.of(given)
    of_size = large(train.network.params)
    settings = default.settings_for(of_size)
    climb = cast("Adam", cast("Mode", default.treating(0, size.train, of_size).editor).climb)
    plain, learning = fits(settings, len(default.otherwise(0, size.train, of_size)), asked, learn)
    seen = size.train + size.failures / 2 + min(size.right / 2, settings.learning.most * size.train)
    passes = climb.epochs if epochs is None else epochs
    return (
        each * search(settings, size)
        + _step(train, climb) * passes * (plain * size.train + learning * seen) / climb.batch
    )


def _step(train: Factor, climb: Adam) -> float:
    """Seconds of one step of fine-tuning."""
    few = train[: STEPS * climb.batch]
    steps = -(-len(few) // climb.batch)
    return best_of_two(lambda: list(replace(climb, epochs=1)([few], few.network.params)), few.network.device) / steps


def best_of_two(work: Callable[[], Any], device: torch.device) -> float:
    """Seconds; the first time warms up."""
    best = float("inf")
    for _ in range(2):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def within(budget: Any, given: dict[str, Factor]) -> str:
    """The name of a budget: the one that was asked for, or the largest that should end within so many seconds; the
    smallest where none does."""
    if isinstance(budget, str):
        Settings.of(budget)  # raises for a name that is none
        return budget
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real) or not 0 < float(budget) < float("inf"):
        raise BadInput(f"budget is {budget!r}; it must be a name or seconds; give {', '.join(BUDGETS)}, or a number")
    train = given["train"]
    batch = train[: min(len(train), train.batch)]
    each = best_of_two(lambda: batch.value_and_grad(batch.network.params), batch.network.device) / len(batch)
    fitting = [name for name in BUDGETS if seconds(given, Default(name), each) <= float(budget)]
    return fitting[-1] if fitting else BUDGETS[0]
