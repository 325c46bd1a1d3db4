"""From a caller's arguments to factors under a private copy of the model. Everything is checked here."""

from __future__ import annotations

import inspect
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from amends.data.examples import Examples, examples, leaves
from amends.data.hashes import labels_hash, weights_hash
from amends.data.inputs import form, in_the_form_of
from amends.distributed.group import alike, world
from amends.errors import AmendsError, BadInput, OutOfMemory, first_line
from amends.evidence.cpu import as_before, settle
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.room import refused
from amends.likelihoods import Categorical, Custom, as_likelihood
from amends.models import module_of

P = ParamSpec("P")
R = TypeVar("R")
RESIDENT = 4 * 2**30  # bytes of data kept on an accelerator; larger sets are sent batch by batch


def prepare(model: Any, likelihood: Any, device: Any, batch_size: int, **sets: Any) -> dict[str, Factor]:
    """A factor for each set that is not None, by name. The model may be anything that `module_of` opens."""
    return factors(network_of(model, likelihood, device), batch_size, **sets)


def network_of(model: Any, likelihood: Any, device: Any) -> Network:
    """A private copy of the model."""
    opened = module_of(model, likelihood)
    return replace(Network.of(opened.module, as_likelihood(opened.likelihood), device), opened=opened)


def factors(network: Network, batch_size: int, **sets: Any) -> dict[str, Factor]:
    """A factor for each set that is not None, by name. All take the classes and columns of the first set."""
    if not isinstance(batch_size, numbers.Integral) or batch_size < 1:
        raise BadInput(f"batch_size is {batch_size!r}; give a whole number of 1 or more")
    for name in ("train", "data"):
        if sets.get(name, ...) is None:
            raise BadInput(f"{name} is None; pass labelled examples")
    innermost = network.module if network.opened is None else network.opened.innermost
    takes = list(inspect.signature(innermost.forward).parameters)
    checked = {name: examples(data, name, accepts=set(takes)) for name, data in sets.items() if data is not None}
    checked = {name: _same_classes(data, next(iter(checked.values()))) for name, data in checked.items()}
    first = next(iter(checked.values()))
    network = network.of_family(first)
    checked = {name: _same_form(data, first, takes) for name, data in checked.items()}
    for data in checked.values():
        _same_columns(data, first)
        network.check(data)
    _on_every_rank(network, checked.values())
    _look_at_outputs(network, first)
    batch = settle(network, first, int(batch_size))
    on_device = (
        set() if network.device.type == "cpu" else resident({name: _bytes(data) for name, data in checked.items()})
    )
    return {
        name: Factor.of(network, data.to(network.device) if name in on_device else data, batch)
        for name, data in checked.items()
    }


def resident(sizes: Mapping[str, int]) -> set[str]:
    """The sets to keep on an accelerator, by their bytes: the smallest first. Failures are read at every step of an
    edit; a training set that is too large is read batch by batch."""
    total, kept = 0, set()
    for name in sorted(sizes, key=lambda name: sizes[name]):
        total += sizes[name]
        if total <= RESIDENT:
            kept.add(name)
    return kept


def _on_every_rank(network: Network, sets: Iterable[Examples]) -> None:
    """BadInput if the processes of a group were given different models or data."""
    if world() == 1:
        return
    alike("the model", weights_hash(network.params), "load the same weights on each")
    for data in sets:
        alike(
            data.name, (len(data), labels_hash(data.y)), "give each the whole set, in one order; it is dealt out here"
        )


def needed(failures: Any) -> Any:
    """The failures; BadInput if they are None."""
    if failures is None:
        raise BadInput("failures is None; pass labelled examples")
    return failures


def _same_form(data: Examples, first: Examples, takes: list[str]) -> Examples:
    """The set with its inputs named and ordered as in the first, since sets are joined part by part."""
    x = in_the_form_of(first.x, data.x, takes)
    if x is None:
        raise BadInput(f"{data.name} has {form(data.x)}, but {first.name} has {form(first.x)}; give both in one form")
    return data if x is data.x else replace(data, x=x)


def _same_columns(data: Examples, first: Examples) -> None:
    """BadInput unless both tables have the same columns: the model knows them by their position alone."""
    if _rows(data) and _rows(first) and data.features != first.features:
        missing = [c for c in first.features if c not in data.features]
        what = f"has no column {missing[0]}" if missing else f"has the columns of {first.name} in another order"
        if not missing and len(data.features) > len(first.features):
            what = f"has column {next(c for c in data.features if c not in first.features)}, but {first.name} does not"
        raise BadInput(f"{data.name} {what}; give the columns of {first.name}, in its order")


def _rows(data: Examples) -> bool:
    """Whether the model takes the table itself, and not the output of a transform."""
    return bool(data.features) and isinstance(data.x, Tensor) and data.x.shape[1:] == (len(data.features),)


def _same_classes(data: Examples, first: Examples) -> Examples:
    """The set with the class numbers of the first. If a class is missing, the same names would have other numbers."""
    if not data.classes or not first.classes or data.classes == first.classes:
        return data
    if data.y.ndim != 1 or data.y.is_floating_point():
        raise BadInput(f"{data.name} has other classes than {first.name}; give {', '.join(first.classes)}")
    y, number = data.y.cpu(), len(data.classes)
    outside = torch.nonzero((y < 0) | (y >= number)).flatten().tolist()
    if outside:
        what = f"{data.name}[{outside[0]}] has label {int(y[outside[0]])}"
        raise BadInput(f"{what}, but {data.name} has {number} classes; map classes to 0, 1, 2, ...")
    occurring = {data.classes[k] for k in y.unique().tolist()}
    unknown = [name for name in data.classes if name in occurring and name not in first.classes]
    if unknown:
        names = ", ".join(first.classes)
        raise BadInput(f"{data.name} has class {unknown[0]}, but {first.name} does not; give only {names}")
    numbers = torch.tensor([first.classes.index(name) if name in occurring else -1 for name in data.classes])
    return replace(data, y=numbers[y].to(data.y), classes=first.classes)


def _look_at_outputs(network: Network, data: Examples) -> None:
    """BadInput if the outputs are random, do not depend on the weights, or a loss was passed instead of a
    log-likelihood. A warning if they look like probabilities."""
    (x, y), (few, _) = (data.fetch(0, min(number, len(data))) for number in (8, 2))
    times = {name: b._version for name, b in network.module.named_buffers()}
    with torch.no_grad():
        out, few_outputs = (network.outputs(network.params, part).float() for part in (x, few))
    written = [name for name, b in network.module.named_buffers() if b._version != times.get(name, b._version)]
    if written:
        raise BadInput(
            f"forward changes the buffer {written[0]} in place, also in eval mode; model; assign a new tensor, or "
            "leave it as it is in eval mode"
        )
    with torch.enable_grad():
        again = network.outputs({k: p.detach().requires_grad_() for k, p in network.params.items()}, few)
    if not again.requires_grad:
        raise BadInput(
            "the model's outputs cannot be differentiated by its weights; model; return logits, not classes or rounded "
            "values, and nothing from under torch.no_grad()"
        )
    if not torch.allclose(
        few_outputs, again.detach().float(), rtol=1e-2, atol=1e-2 * _size(few_outputs), equal_nan=True
    ):
        raise BadInput(
            "the model gives the same examples other outputs each time; model; switch off what is random after "
            "model.eval(), such as dropout with training=True"
        )
    if not isinstance(network.likelihood.family, Categorical):
        return
    if isinstance(network.likelihood, Custom) and bool((network.likelihood(out, y.to(out.device)) > 0).all()):
        raise BadInput(
            "its values are above 0, which no log-likelihood of a class is; likelihood; if it is a loss, pass minus "
            "the loss"
        )
    if len(out) > 1 and bool((out >= 0).all()) and bool(((out.sum(1) - 1).abs() < 1e-4).all()):
        warnings.warn(
            "the model's outputs look like probabilities, but logits are expected; remove its last softmax, "
            "or pass a likelihood that takes probabilities",
            stacklevel=5,
        )


def _size(out: Tensor) -> float:
    return float(out.nan_to_num().abs().max()) if out.numel() else 0.0


def whole(seed: Any) -> int:
    """A seed that both torch and numpy accept."""
    if not isinstance(seed, numbers.Integral) or seed < 0 or int(seed) >= 2**63:
        raise BadInput(f"seed is {seed!r}; give a whole number of 0 or more, below 2**63")
    return int(seed)


def _bytes(data: Examples) -> int:
    return sum(leaf.element_size() * leaf.numel() for leaf in leaves(data.x))


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator for public functions: they also work under torch.inference_mode, restore the number of threads, and
    turn a lack of memory into OutOfMemory."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with as_before(), torch.inference_mode(False), torch.no_grad():
                return function(*args, **kwargs)
        except (RuntimeError, MemoryError) as e:
            if isinstance(e, AmendsError) or not refused(e):
                raise
            verb = function.__name__.removesuffix("_into")  # on the command line: into a folder
            raise OutOfMemory(f"out of memory ({first_line(e)}); {verb}; give a smaller batch_size") from e

    return inside
