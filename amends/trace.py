"""A recorded training run, for methods that look at training itself and not only at its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from amends.errors import BadInput, NonFinite, kind_of
from amends.evidence.factor import Factor
from amends.evidence.params import Params, flatten, plus


@dataclass(frozen=True, eq=False)
class TraceStep:
    """θ before the step, the positions in train of its batch, and its learning rate."""

    theta: Params
    positions: np.ndarray
    rate: float


@dataclass(frozen=True, eq=False)
class Trace:
    """A run from θ₀ to its end; kept on the CPU, since every step has a copy of the parameters."""

    steps: tuple[TraceStep, ...]
    end: Params

    def check(self, train: Factor) -> None:
        """BadInput unless this can be a run of the same network on train."""
        if not self.steps:
            raise BadInput("the trace has no steps; record at least one, or replay for more epochs")
        for i, theta in enumerate([*(s.theta for s in self.steps), self.end]):
            train.network.check_weights(theta, f"trace[{i}]")
            for name in theta.keys() - train.network.params.keys():
                raise BadInput(
                    f"{name} is not a trainable parameter of the model; trace[{i}]; give a run of this model"
                )
        for i, step in enumerate(self.steps):
            positions = _positions(step.positions, f"trace[{i}]")
            outside = positions[(positions < 0) | (positions >= len(train))]
            if len(outside):
                raise BadInput(
                    f"trace[{i}] holds position {outside[0]}, but train has {len(train)} examples; "
                    "pass the set that was trained on, in its order"
                )


def check_trace(trace: Any, where: str) -> None:
    if trace is not None and not isinstance(trace, Trace):
        raise BadInput(f"trace is {kind_of(trace)}; {where}; pass what Recorder.trace() returns")


def _positions(given: Any, where: str) -> np.ndarray:
    array = np.asarray(given.cpu() if isinstance(given, Tensor) else given)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
        raise BadInput(
            f"the positions are {array.dtype} of shape {list(array.shape)}; {where}; "
            "give a list of whole numbers, the positions in train of the batch"
        )
    return array.astype(np.int64)


@dataclass(eq=False)
class Recorder:
    """Records the caller's own training loop; call it right before each `optimiser.step()`.

    Any optimiser will do; methods that use the trace take the recorded rate as that of plain SGD.
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

    `without` leaves the examples at these positions out of the sum and changes nothing else: batches
    and the division by |S| stay, which is the counterfactual of Hara et al. 2019.
    """
    theta, steps = train.network.weights(start, "start"), []
    count = round(epochs * -(-len(train) // batch))
    for positions in islice(batches(len(train), batch, seed), count):
        steps.append(TraceStep(_kept(theta), positions, rate))
        used = positions if without is None else positions[~np.isin(positions, without)]
        theta = plus(theta, train[used].value_and_grad(theta)[1], rate / len(positions))
    if not flatten(theta).isfinite().all():
        raise NonFinite(f"the weights are NaN or infinite after {count} replayed steps; lower the rate")
    return Trace(tuple(steps), _kept(theta))


def _kept(theta: Params) -> Params:
    return {k: v.cpu() for k, v in theta.items()}


def batches(n: int, size: int, seed: int) -> Iterator[np.ndarray]:
    """Positions, batch by batch, shuffled anew in each epoch."""
    noise = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(n, generator=noise).numpy()
        yield from (order[s : s + size] for s in range(0, n, size))
