"""From what a caller passes to evidence under a private copy of the model; everything is checked here."""

from __future__ import annotations

import inspect
import numbers
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from amends.data.examples import Examples, examples, leaves
from amends.errors import BadInput, OutOfMemory, first_line
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.likelihoods import Categorical, as_likelihood
from amends.models import module_of

P = ParamSpec("P")
R = TypeVar("R")
RESIDENT = 4 * 2**30  # bytes of data kept on an accelerator; more is sent batch by batch


def prepare(model: Any, likelihood: Any, device: Any, batch_size: int, **sets: Any) -> dict[str, Factor]:
    """A factor for each set that is not None, by name. The model may be anything `module_of` opens."""
    return factors(network_of(model, likelihood, device), batch_size, **sets)


def network_of(model: Any, likelihood: Any, device: Any) -> Network:
    """A private copy of the model."""
    opened = module_of(model, likelihood)
    return replace(Network.of(opened.module, as_likelihood(opened.likelihood), device), opened=opened)


def factors(network: Network, batch_size: int, **sets: Any) -> dict[str, Factor]:
    """A factor for each set that is not None, by name. The first set says what classes and columns the others have."""
    if not isinstance(batch_size, numbers.Integral) or batch_size < 1:
        raise BadInput(f"batch_size is {batch_size!r}; batch_size; give a whole number of 1 or more")
    if sets.get("train", ...) is None:
        raise BadInput("there is nothing; train; give labelled examples")
    innermost = network.module if network.opened is None else network.opened.innermost
    accepts = set(inspect.signature(innermost.forward).parameters)
    given = {name: examples(data, name, accepts=accepts) for name, data in sets.items() if data is not None}
    given = {name: _same_classes(data, next(iter(given.values()))) for name, data in given.items()}
    first = next(iter(given.values()))
    for data in given.values():
        _same_columns(data, first)
        network.check(data)
    _warn_of_probabilities(network, first)
    resident = network.device.type != "cpu" and sum(map(_bytes, given.values())) <= RESIDENT
    return {
        name: Factor.of(network, data.to(network.device) if resident else data, int(batch_size))
        for name, data in given.items()
    }


def needed(failures: Any) -> Any:
    """BadInput unless there are some."""
    if failures is None:
        raise BadInput("there is nothing; failures; give labelled examples")
    return failures


def _same_columns(data: Examples, first: Examples) -> None:
    """A model takes columns by their place, people by their name."""
    if _rows(data) and _rows(first) and data.features != first.features:
        missing = [c for c in first.features if c not in data.features]
        what = f"there is no column {missing[0]}" if missing else "its columns are in another order"
        if not missing and len(data.features) > len(first.features):
            what = f"column {next(c for c in data.features if c not in first.features)} is not in {first.name}"
        raise BadInput(f"{what}; {data.name}; give the columns of {first.name}, in its order")


def _rows(data: Examples) -> bool:
    """Whether it is a table as the model takes it, and not what a transform made of one."""
    return bool(data.features) and isinstance(data.x, Tensor) and data.x.shape[1:] == (len(data.features),)


def _same_classes(data: Examples, first: Examples) -> Examples:
    """Names decide: a set that lacks a class has other numbers for the same names."""
    if not data.classes or not first.classes or data.classes == first.classes:
        return data
    if data.y.ndim != 1 or data.y.is_floating_point():
        raise BadInput(f"its classes are not those of {first.name}; {data.name}; give {', '.join(first.classes)}")
    y, known = data.y.cpu(), len(data.classes)
    outside = torch.nonzero((y < 0) | (y >= known)).flatten().tolist()
    if outside:
        where = f"{data.name}[{outside[0]}]"
        raise BadInput(
            f"label {int(y[outside[0]])} is out of range 0 to {known - 1}; {where}; map classes to 0, 1, 2, ..."
        )
    occurring = {data.classes[k] for k in y.unique().tolist()}
    unknown = [name for name in data.classes if name in occurring and name not in first.classes]
    if unknown:
        names = ", ".join(first.classes)
        raise BadInput(f"class {unknown[0]} is not one of {first.name} ({names}); {data.name}; give the same")
    numbers = torch.tensor([first.classes.index(name) if name in occurring else -1 for name in data.classes])
    return replace(data, y=numbers[y].to(data.y), classes=first.classes)


def _warn_of_probabilities(network: Network, data: Examples) -> None:
    if not isinstance(network.likelihood.family, Categorical):
        return
    x, _ = data.fetch(0, min(8, len(data)))
    out = network.outputs(network.params, x).float()
    if len(out) > 1 and bool((out >= 0).all()) and bool(((out.sum(1) - 1).abs() < 1e-4).all()):
        warnings.warn(
            "the model's outputs look like probabilities; logits are expected, so take its last softmax away "
            "or pass a likelihood that takes the logarithm itself",
            stacklevel=5,
        )


def whole(seed: Any) -> int:
    """A seed as torch and numpy take it."""
    if not isinstance(seed, numbers.Integral) or seed < 0:
        raise BadInput(f"seed is {seed!r}; seed; give a whole number of 0 or more")
    return int(seed)


def _bytes(data: Examples) -> int:
    return sum(leaf.element_size() * leaf.numel() for leaf in leaves(data.x))


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """A door of the library: derivatives are on inside, and a lack of memory is said in our words."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with torch.inference_mode(False), torch.no_grad():
                return function(*args, **kwargs)
        except torch.OutOfMemoryError as e:
            raise OutOfMemory(f"{first_line(e)}; {function.__name__}; give a smaller batch_size") from e

    return inside
