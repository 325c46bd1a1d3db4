"""A recorded training run, for methods that look at training itself and not only at its result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from amends.errors import BadInput, DiskError, NonFinite, first_line, kind_of
from amends.evidence.factor import Factor
from amends.evidence.params import Params, flatten, plus

__all__ = ["Recorder", "Trace", "TraceStep", "load"]
STEPS, END = "steps.jsonl", "end.safetensors"  # of a recorded run in a folder


@dataclass(frozen=True, eq=False)
class TraceStep:
    """θ before the step, the positions in train of its batch, and its learning rate."""

    theta: Params
    positions: np.ndarray
    rate: float


@dataclass(frozen=True, eq=False)
class StoredStep:
    """The same, with θ in a file that is read when it is asked for."""

    file: Path
    positions: np.ndarray
    rate: float

    @property
    def theta(self) -> Params:
        return _read(self.file)


@dataclass(frozen=True, eq=False)
class Trace:
    """A run from θ₀ to its end; kept on the CPU or on disk, since every step has a copy of the parameters."""

    steps: tuple[TraceStep | StoredStep, ...]
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

    Any optimiser will do; methods that use the trace take the recorded rate as that of plain SGD. With a `folder`,
    which must not exist, the steps are written there as they are made, and `amends.trace.load` reads them again.
    """

    model: nn.Module
    folder: str | Path | None = None
    steps: list[TraceStep | StoredStep] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.folder is None:
            return
        try:
            Path(self.folder).mkdir(parents=True)
        except OSError as e:
            raise DiskError(f"the folder cannot be made ({first_line(e)}); {self.folder}; choose another") from e

    def __call__(self, positions: Any, rate: float) -> None:
        where = f"recorder, step {len(self.steps)}"
        if not 0 <= float(rate) < float("inf"):
            raise BadInput(f"the learning rate is {rate!r}; {where}; give the rate of this step")
        found = _positions(positions, where)
        if self.folder is None:
            self.steps.append(TraceStep(self._here(), found, float(rate)))
            return
        home = Path(self.folder)
        file = home / f"{len(self.steps):07d}.safetensors"
        _write(self._here(), file)
        with (home / STEPS).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"positions": found.tolist(), "rate": float(rate)}) + "\n")
        self.steps.append(StoredStep(file, found, float(rate)))

    def trace(self) -> Trace:
        """The run so far, ending where the model is now."""
        end = self._here()
        if self.folder is not None:
            _write(end, Path(self.folder) / END)
        return Trace(tuple(self.steps), end)

    def _here(self) -> Params:
        return {k: p.detach().to("cpu", copy=True) for k, p in self.model.named_parameters() if p.requires_grad}


def load(folder: str | Path) -> Trace:
    """A run that a Recorder wrote to a folder; the weights of a step are read when they are needed."""
    home = Path(folder)
    try:
        lines = [json.loads(line) for line in (home / STEPS).read_text(encoding="utf-8").splitlines()]
        steps = [
            StoredStep(home / f"{i:07d}.safetensors", np.array(line["positions"], dtype=np.int64), float(line["rate"]))
            for i, line in enumerate(lines)
        ]
    except FileNotFoundError as e:
        raise BadInput(f"there is no recorded run ({STEPS} is missing); {home}; give the folder of a Recorder") from e
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise BadInput(f"the recorded run cannot be read ({first_line(e)}); {home / STEPS}; record it again") from e
    return Trace(tuple(steps), _read(home / END))


def _read(file: Path) -> Params:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except (OSError, SafetensorError) as e:
        raise BadInput(f"a step of the recorded run cannot be read ({first_line(e)}); {file}; record it again") from e


def _write(theta: Params, file: Path) -> None:
    from safetensors.torch import save_file

    try:
        save_file({k: v.contiguous() for k, v in theta.items()}, file)
    except OSError as e:
        raise DiskError(f"a step cannot be written ({first_line(e)}); {file}; make room, or record elsewhere") from e


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
