"""A recorded training run, for the methods that look at training and not only at where it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from amends.errors import BadInput, NonFinite
from amends.evidence.factor import Factor
from amends.evidence.params import Params, flatten, plus


@dataclass(frozen=True, eq=False)
class TraceStep:
    """θ before the step, where the examples of its batch stand in train, and its learning rate."""

    theta: Params
    positions: np.ndarray
    rate: float


@dataclass(frozen=True, eq=False)
class Trace:
    """A run from θ₀ to its end; kept on the CPU, for it is one copy of the parameters a step."""

    steps: tuple[TraceStep, ...]
    end: Params

    def check(self, train: Factor) -> None:
        """BadInput unless this can be a run of train's network on train."""
        if not self.steps:
            raise BadInput("the run has no steps; trace; record at least one, or replay for more epochs")
        for i, theta in enumerate([*(s.theta for s in self.steps), self.end]):
            train.network.check_weights(theta, f"trace[{i}]")
            for name in theta.keys() - train.network.params.keys():
                raise BadInput(f"{name} is no trainable parameter of the model; trace[{i}]; give a run of this model")
        for i, step in enumerate(self.steps):
            found = _positions(step.positions, f"trace[{i}]")
            outside = found[(found < 0) | (found >= len(train))]
            if len(outside):
                raise BadInput(
                    f"the batch holds position {outside[0]}, but train has {len(train)} examples; trace[{i}]; "
                    "pass the set the run was made on, in its order"
                )


def check_trace(trace: Any, where: str) -> None:
    if trace is not None and not isinstance(trace, Trace):
        raise BadInput(f"trace is a {type(trace).__name__}; {where}; pass what Recorder.trace() returns")


def _positions(given: Any, where: str) -> np.ndarray:
    array = np.asarray(given.cpu() if isinstance(given, Tensor) else given)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
        raise BadInput(
            f"positions are {array.dtype} of shape {list(array.shape)}; {where}; "
            "give a row of whole numbers, where the examples of the batch stand in train"
        )
    return array.astype(np.int64)


@dataclass(eq=False)
class Recorder:
    """Records a training loop of the caller's own: called right before each `optimiser.step()`.

    The optimiser may be any; what uses the trace takes the recorded rate as the one of plain SGD.
    """

    model: nn.Module
    steps: list[TraceStep] = field(default_factory=list, init=False)

    def __call__(self, positions: Any, rate: float) -> None:
        where = f"recorder, step {len(self.steps)}"
        if not 0 <= float(rate) < float("inf"):
            raise BadInput(f"the learning rate is {rate!r}; {where}; give the rate of this step")
        self.steps.append(TraceStep(self._here(), _positions(positions, where), float(rate)))

    def trace(self) -> Trace:
        """The run so far, ending where the model is now."""
        return Trace(tuple(self.steps), self._here())

    def _here(self) -> Params:
        return {k: p.detach().to("cpu", copy=True) for k, p in self.model.named_parameters() if p.requires_grad}


def replay(
    train: Factor,
    start: Params,
    *,
    epochs: float = 1.0,
    batch: int = 64,
    rate: float = 1e-2,
    seed: int = 0,
    without: np.ndarray | None = None,
) -> Trace:
    """Plain SGD on the mean negative log-likelihood: θ ← θ + rate/|S| Σ_{i∈S} ∇log p(zᵢ|θ).

    `without` leaves the examples at these positions out of the sum and nothing else: batches and
    the division by |S| stay as they were, the counterfactual of Hara et al. 2019.
    """
    theta, steps = train.network.weights(start, "start"), []
    count = round(epochs * -(-len(train) // batch))
    for positions in islice(batches(len(train), batch, seed), count):
        steps.append(TraceStep(_kept(theta), positions, rate))
        used = positions if without is None else positions[~np.isin(positions, without)]
        theta = plus(theta, train[used].value_and_grad(theta)[1], rate / len(positions))
    if not flatten(theta).isfinite().all():
        raise NonFinite(f"NaN or infinity in the replayed weights; replay of {count} steps; lower the rate")
    return Trace(tuple(steps), _kept(theta))


def _kept(theta: Params) -> Params:
    return {k: v.cpu() for k, v in theta.items()}


def batches(n: int, size: int, seed: int) -> Iterator[np.ndarray]:
    """Positions of one batch after the other, shuffled anew each epoch."""
    noise = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(n, generator=noise).numpy()
        yield from (order[s : s + size] for s in range(0, n, size))
