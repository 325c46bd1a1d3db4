"""What a model says of examples, and whether that is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.evidence.prepare import entry, prepare
from amends.likelihoods import Categorical, Gaussian, asked


@entry
def failing(model: Any, data: Any, *, likelihood: Any = None, device: Any = None, batch_size: int = 256) -> np.ndarray:
    """Which examples the model gets wrong, as a mask over the data: its failures, found by running it.

    What counts as wrong is the likelihood's to say: another class, any label of several, or a residual
    above the bound of a gaussian.
    """
    found = prepare(model, likelihood, device, batch_size, data=data)["data"]
    return ~right(found, found.network.params)


def right(data: Factor, theta: Params) -> np.ndarray:
    """Whether each example is predicted right, in order."""
    network = data.network
    found = data.map(lambda x, y: network.likelihood.right(network.outputs(theta, x), y))
    return found.bool().cpu().numpy()


def predicted(data: Factor, theta: Params) -> np.ndarray:
    """The class, the labels or the value the model gives each example."""
    if not len(data):
        return np.zeros(0, dtype=np.int64)
    network = data.network
    return _numbers(data.map(lambda x, y: asked(network.likelihood, y).decide(network.outputs(theta, x))))


def given(data: Factor) -> np.ndarray:
    """The targets, in the same terms."""
    return _numbers(data.network.likelihood.shown(data.examples.y))


def labels(data: Factor, theta: Params | None = None) -> np.ndarray:
    """What each example is given, or what the model with θ says of it; classes by their names."""
    return by_name(given(data) if theta is None else predicted(data, theta), data)


def by_name(values: np.ndarray, data: Factor) -> np.ndarray:
    """Classes by their names, where the set knows them; anything else as it is."""
    names = data.examples.classes
    if not names or values.ndim != 1 or values.dtype.kind not in "iu" or not class_targets(data):
        return values
    return np.array([names[v] if 0 <= v < len(names) else str(v) for v in values.tolist()], dtype=object)


def class_targets(data: Factor) -> bool:
    """Whether each target is the index of one class of several."""
    return isinstance(data.network.likelihood.family, Categorical) and not data.examples.y.is_floating_point()


def _numbers(t: torch.Tensor) -> np.ndarray:
    t = t.reshape(len(t)) if t.ndim == 2 and t.shape[1] == 1 else t
    return (t.float() if t.is_floating_point() else t).cpu().numpy()


def groups(data: Factor, called: np.ndarray | None = None) -> np.ndarray:
    """The name of each example's group: true→predicted for classes, one group otherwise. `called` are the
    predictions, where they are known."""
    y = data.examples.y
    if y.is_floating_point() or y.ndim != 1 or isinstance(data.network.likelihood.family, Gaussian):
        return np.full(len(data), "all", dtype=object)
    called = predicted(data, data.network.params) if called is None else called
    pairs = zip(*(by_name(v, data).tolist() for v in (y.cpu().numpy(), called)), strict=True)
    return np.array([f"{t}→{p}" for t, p in pairs], dtype=object)
